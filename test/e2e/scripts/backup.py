# Begins a backup over gRPC, or waits for one and tells what it holds, or asks
# whether a client is served, in the container of Medusa. A line before this one
# says who the client is (IDENTITY) and whom it expects (SERVER).
import base64
import json
import os
import sys
import time

import grpc
from medusa.service.grpc import medusa_pb2 as messages
from medusa.service.grpc import medusa_pb2_grpc as service


def channel():
    address = "127.0.0.1:" + os.environ.get("STATEGRAFT_GRPC_PORT", "50051")
    who = {key: pem.encode() for key, pem in json.loads(base64.b64decode(IDENTITY)).items()}  # noqa: F821
    if "ca" not in who:
        return grpc.insecure_channel(address)
    credentials = grpc.ssl_channel_credentials(who["ca"], who.get("key"), who.get("cert"))
    return grpc.secure_channel(address, credentials, [("grpc.ssl_target_name_override", SERVER)])  # noqa: F821


def ask():
    try:
        stub.GetBackups(messages.GetBackupsRequest(), timeout=60)
        return {"code": "OK"}
    except grpc.RpcError as error:
        return {"code": error.code().name, "details": error.details()}


def begin(name):
    stub.AsyncBackup(messages.BackupRequest(name=name, mode=messages.BackupRequest.Mode.DIFFERENTIAL), wait_for_ready=True, timeout=60)


def wait(name):
    limit = time.time() + 480
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
    return answer


stub = service.MedusaStub(channel())
answer = {"begin": begin, "wait": wait, "ask": ask}[sys.argv[1]](*sys.argv[2:])
if answer is not None:
    print(json.dumps(answer))
