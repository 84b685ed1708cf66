# Tells what is to be known before a restore, with Medusa's own code, as Medusa
# itself exits with status 0 for most backups that it cannot restore.
#
# Arguments: the path of medusa.ini, the name of the backup, the path of the
# answer. The answer is one JSON object; its "error" says what kept it from
# being complete: a storage that gives no answer is one, and not a backup that was
# never finished. Nothing is written to the storage.
import json
import logging
import os
import sys
from collections import defaultdict
from pathlib import Path


def relative(path):
    # as AbstractStorage.path_maybe_with_parent: secondary indexes and DSE's
    # files are one directory deeper
    path = Path(path)
    if path.parent.name.startswith(".") or path.parent.name.endswith("nodes"):
        return "{}/{}".format(path.parent.name, path.name)
    return path.name


def inspect(config, asking, name, answer):
    index = indexed(asking.storage)
    names = asking.there(index)
    answer["backups"] = names
    nodes = index[name] if name in names else {}
    answer["nodes"] = sorted(nodes)
    fqdn = config.storage.fqdn
    own = nodes.get(fqdn)
    if own is None:
        return
    backup = asking.backup(name, fqdn, own)
    if not asking.ask("backup {} of node {}".format(name, fqdn), lambda: True if backup.exists() else None):
        # The bucket has expired it, and the index knows it yet.
        answer["nodes"].remove(fqdn)
        return
    manifest = asking.ask("the manifest of node " + fqdn, lambda: backup.manifest)
    answer["complete"] = bool(manifest) and bool(own.finished() or asking.ask("the end of node " + fqdn, lambda: backup.finished))
    answer["tokenmap"] = sorted(json.loads(twice(lambda: asking.storage.storage_driver.read_blob_as_string(own.blobs["tokenmap"]))))
    if not answer["complete"]:
        return
    answer["serverType"] = backup.server_type
    answer["serverVersion"] = backup.release_version
    answer["tables"] = [
        {
            "keyspace": section["keyspace"],
            "table": section["columnfamily"],
            "files": {relative(o["path"]): int(o["size"]) for o in section["objects"]},
        }
        for section in json.loads(manifest)
    ]
    if os.environ.get("STATEGRAFT_CONTENTS_FILE"):
        answer["contents"] = counted(asking, name, fqdn)


def check(ini, name, heard, answer):
    import medusa.config
    from medusa.cassandra_utils import CassandraConfigReader
    from medusa.storage import Storage

    config = medusa.config.load_config(defaultdict(lambda: None), Path(ini))
    answer["fqdn"] = config.storage.fqdn
    reader = CassandraConfigReader(config.cassandra.config_file)
    answer["dataDirectory"] = str(reader.root)
    answer["commitlogDirectory"] = str(reader.commitlog_directory)
    answer["savedCachesDirectory"] = str(reader.saved_caches_directory)
    # Medusa has no word for it: it leaves hints alone.
    answer["hintsDirectory"] = str(getattr(reader, "_config", {}).get("hints_directory") or "")
    with Storage(config=config.storage) as storage:
        inspect(config, Asking(storage, heard), name, answer)


def main():
    ini, name, path = sys.argv[1:4]
    heard = Heard()
    logging.getLogger("").addHandler(heard)
    answer = {}
    try:
        impatient()
        resigned()
        look_only()
        check(ini, name, heard, answer)
    except SystemExit:
        # Medusa logs what is wrong with its configuration and exits.
        answer["error"] = heard.errors[-1] if heard.errors else "Medusa refuses its configuration"
    except Exception as error:
        answer["error"] = reason(error)
    with open(path, "w") as out:
        json.dump(answer, out)
        out.flush()
        os.fsync(out.fileno())


main()
