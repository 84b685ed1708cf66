"""Makes a backup over gRPC, in the container of Medusa, and tells what it holds."""
import json
import os
import sys
import time

import grpc
from medusa.service.grpc import medusa_pb2 as messages
from medusa.service.grpc import medusa_pb2_grpc as service

name, limit = sys.argv[1], time.time() + 240
stub = service.MedusaStub(grpc.insecure_channel("127.0.0.1:" + os.environ.get("STATEGRAFT_GRPC_PORT", "50051")))
stub.AsyncBackup(messages.BackupRequest(name=name, mode=messages.BackupRequest.Mode.DIFFERENTIAL), wait_for_ready=True, timeout=60)
status = None
while status is None or status == messages.StatusType.IN_PROGRESS:
    if time.time() > limit:
        sys.exit("the backup is not done in time, its status is %s" % status)
    time.sleep(0.3)
    try:
        status = stub.BackupStatus(messages.BackupStatusRequest(backupName=name), timeout=60).status
    except grpc.RpcError as error:
        if error.code() != grpc.StatusCode.NOT_FOUND:  # so it is until the schema is stored
            raise
summary = stub.GetBackup(messages.GetBackupRequest(backupName=name), timeout=60).backup
print(json.dumps({"status": messages.StatusType.Name(status), "objects": summary.totalObjects,
                  "bytes": summary.totalSize, "nodes": summary.finishedNodes}))
