"""Begins a backup over gRPC, or waits for one and tells what it holds, in the
container of Medusa."""
import json
import os
import sys
import time

import grpc
from medusa.service.grpc import medusa_pb2 as messages
from medusa.service.grpc import medusa_pb2_grpc as service

action, name = sys.argv[1:]
limit = time.time() + 480
stub = service.MedusaStub(grpc.insecure_channel("127.0.0.1:" + os.environ.get("STATEGRAFT_GRPC_PORT", "50051")))
if action == "begin":
    stub.AsyncBackup(messages.BackupRequest(name=name, mode=messages.BackupRequest.Mode.DIFFERENTIAL), wait_for_ready=True, timeout=60)
    sys.exit()
status = trouble = None
while status is None or status in (messages.StatusType.IN_PROGRESS, messages.StatusType.UNKNOWN):
    if time.time() > limit:
        sys.exit("the backup is not done in time, its status is %s %s" % (status, trouble))
    time.sleep(0.3)
    try:
        status = stub.BackupStatus(messages.BackupStatusRequest(backupName=name), timeout=60, wait_for_ready=True).status
    except grpc.RpcError as error:
        # Not there until the schema is stored, and nothing known while the storage is down.
        trouble = "%s %s" % (error.code(), error.details())
answer = {"status": messages.StatusType.Name(status)}
if status == messages.StatusType.SUCCESS:
    summary = stub.GetBackup(messages.GetBackupRequest(backupName=name), timeout=60).backup
    answer.update(objects=summary.totalObjects, bytes=summary.totalSize, nodes=summary.finishedNodes)
print(json.dumps(answer))
