# Stands before serve.py: counts what is in a snapshot, and stores that beside the
# manifest of the backup that is made of it (api/node, Contents). The agent does it, in
# a process of its own (cmd/stategraft-agent, count). Whatever goes wrong in it leaves the
# backup alone.
import json
import logging
import os
import subprocess

COUNTING = 300  # seconds
CONTENTS = "stategraft.json"


class Counted:
    # What was counted of the backup that is made: of DSE there are two snapshots.
    tables = None


def count(snapshot):
    dirs = [{"keyspace": each.keyspace, "table": each.columnfamily, "path": str(each.path)} for each in snapshot.find_dirs()]
    done = subprocess.run([os.environ["STATEGRAFT_AGENT"], "count"], input=json.dumps(dirs).encode(), capture_output=True, timeout=COUNTING)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.decode(errors="replace").strip()[-500:] or "status {}".format(done.returncode))
    return json.loads(done.stdout)["tables"]


def counting():
    if not os.environ.get("STATEGRAFT_AGENT"):
        return
    from medusa import backup_node
    snapshots, finish, handle = backup_node.backup_snapshots, backup_node.add_backup_finish_to_index, backup_node.handle_backup

    def attempt(what, do):
        try:
            return do()
        except Exception as error:
            logging.warning("%s: %s: %s", what, type(error).__name__, error)

    def add(snapshot):
        Counted.tables = (Counted.tables or []) + count(snapshot)

    def store(storage, node_backup):
        tables, Counted.tables = Counted.tables, None
        if tables is not None:
            text = json.dumps({"version": 1, "tables": sorted(tables, key=lambda each: each["table"])})
            storage.storage_driver.upload_blob_from_string(node_backup.manifest_path.parent / CONTENTS, text)

    def backup_snapshots(*args, **kwargs):
        TURN.phase(UPLOADING)
        attempt("The rows of the backup are not counted", lambda: add(argument(args, kwargs, 3, "snapshot")))
        return snapshots(*args, **kwargs)

    # After the manifest and before Medusa calls the backup finished.
    def add_backup_finish_to_index(*args, **kwargs):
        TURN.phase(FINISHING)
        attempt("The counts of the backup are not stored",
                lambda: store(argument(args, kwargs, 0, "storage"), argument(args, kwargs, 1, "node_backup")))
        return finish(*args, **kwargs)

    def handle_backup(*args, **kwargs):
        Counted.tables = None  # of one that has failed
        return handle(*args, **kwargs)

    backup_node.backup_snapshots, backup_node.add_backup_finish_to_index = backup_snapshots, add_backup_finish_to_index
    backup_node.handle_backup = handle_backup


