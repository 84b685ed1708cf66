# Tells what is to be known before a restore, with Medusa's own code, as Medusa
# itself exits with status 0 for most backups that it cannot restore.
#
# Arguments: the path of medusa.ini, the name of the backup, the path of the
# answer. The answer is one JSON object; its "error" says what kept it from
# being complete. Nothing is written to the storage.
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


def inspect(config, storage, name, answer):
    known = sorted((b for b in storage.list_node_backups()), key=lambda b: b.started)
    answer["backups"] = list(dict.fromkeys(b.name for b in known))
    nodes = {b.fqdn: b for b in known if b.name == name}
    answer["nodes"] = sorted(nodes)
    backup = nodes.get(config.storage.fqdn)
    if backup is None:
        return
    manifest = backup.manifest
    answer["complete"] = bool(manifest) and bool(backup.finished)
    answer["tokenmap"] = sorted(json.loads(backup.tokenmap))
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


def check(ini, name, answer):
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
        inspect(config, storage, name, answer)


def main():
    ini, name, path = sys.argv[1:4]
    errors = []

    class Keep(logging.Handler):
        def emit(self, record):
            errors.append(record.getMessage())

    logging.getLogger("").addHandler(Keep(logging.ERROR))
    answer = {}
    try:
        impatient()
        resigned()
        look_only()
        exact_index()
        check(ini, name, answer)
    except SystemExit:
        # Medusa logs what is wrong with its configuration and exits.
        answer["error"] = errors[-1] if errors else "Medusa refuses its configuration"
    except Exception as error:
        answer["error"] = reason(error)
    with open(path, "w") as out:
        json.dump(answer, out)
        out.flush()
        os.fsync(out.fileno())


main()
