# Tells which backups the storage holds, or what one of them holds, with Medusa's
# own code, as JSON of api/node (Backups, Backup).
#
# Arguments: the path of medusa.ini, the path of the answer, the prefix to look
# below (empty for that of medusa.ini, "." for none), and the name of a backup
# where one is to be looked into. The answer's "error" says what kept it from
# being made. Nothing is written to the storage.
import json
import logging
import sys
from collections import defaultdict
from datetime import datetime, timezone
from pathlib import Path

# How many token maps are read of one backup: one, where no two datacenters have
# part in it and names resolve.
MAPS = 4


def tell(line):
    print(line, file=sys.stderr)


def stamp(seconds):
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


class Looking(Asking):
    def __init__(self, storage, heard):
        super().__init__(storage, heard)
        self.maps = {}  # by their digests: a cluster's are the same for a long time

    def map(self, blob):
        key = (blob.hash, blob.size) if blob.hash else None
        if key in self.maps:
            return self.maps[key]
        ring = {}
        text = twice(lambda: self.storage.storage_driver.read_blob_as_string(blob))
        try:
            for fqdn, at in json.loads(text).items():
                tokens = at.get("tokens")
                if not isinstance(tokens, (list, type(None))):
                    tokens = [tokens]  # a node's only one (medusa/restore_node.py, get_node_tokens)
                ring[fqdn] = {"tokens": [str(token) for token in tokens or []],
                              "datacenter": at.get("dc") or "", "rack": at.get("rack") or ""}
        except (ValueError, TypeError, AttributeError) as error:
            raise Odd(reason(error))
        if key is not None:
            self.maps[key] = ring
        return ring

    def ring(self, name, nodes):
        # A token map knows one datacenter's nodes.
        ring, read = {}, 0
        for fqdn in sorted(nodes):
            if fqdn in ring or read == MAPS:
                continue
            read += 1
            try:
                ring.update(self.map(nodes[fqdn].blobs["tokenmap"]))
            except Exception as error:
                # To take a backup for incomplete because the storage gave no answer
                # would have an older one restored.
                if not odd(error):
                    raise
                tell("the token map of backup {}, node {} cannot be read: {}".format(name, fqdn, reason(error)))
        return ring


def summary(name, nodes, ring):
    answer = {"name": name, "started": stamp(min(node.started() for node in nodes.values())), "nodes": sorted(nodes)}
    ends = [nodes[fqdn].finished() if fqdn in nodes else None for fqdn in ring]
    answer["complete"] = bool(ends) and all(ends)
    if answer["complete"]:
        answer["finished"] = stamp(max(ends))
    return answer


def count(manifest):
    # Bytes, objects and tables of a manifest. Of its objects the sizes are kept,
    # for there may be some hundred thousand.
    def slim(value):
        return int(value["size"]) if "size" in value and "path" in value else value

    sections = json.loads(manifest, object_hook=slim)
    return sum(sum(s["objects"]) for s in sections), sum(len(s["objects"]) for s in sections), len(sections)


def member(asking, name, fqdn, node):
    backup = asking.backup(name, fqdn, node)
    answer = {"node": fqdn, "started": stamp(node.started()), "complete": False,
              "type": "differential" if node.differential() else "full"}
    manifest = asking.ask("the manifest of node " + fqdn, lambda: backup.manifest)
    if not manifest:
        return answer
    finished = node.finished() or backup.finished
    answer["complete"] = bool(finished)
    if finished:
        answer["finished"] = stamp(finished)
    try:
        answer["bytes"], answer["objects"], answer["tables"] = count(manifest)
    except (ValueError, KeyError, TypeError) as error:
        tell("the manifest of backup {}, node {} cannot be read: {}".format(name, fqdn, reason(error)))
        answer["complete"] = False
    version = backup.release_version
    answer["version"] = "" if version == "unknown" else version
    return answer


def everything(asking, answer):
    index = indexed(asking.storage)
    answer["backups"] = [summary(name, index[name], asking.ring(name, index[name])) for name in asking.there(index)]


def one(asking, name, answer):
    nodes = indexed(asking.storage, name).get(name, {})
    answer.update(name=name, nodes=[], complete=False, members=[], ring={})
    if not nodes:
        return
    ring = asking.ring(name, nodes)
    answer.update(summary(name, nodes, ring), ring=ring)
    answer["members"] = [member(asking, name, fqdn, nodes[fqdn]) for fqdn in sorted(nodes)]
    complete = {each["node"]: each for each in answer["members"] if each["complete"]}
    answer["complete"] = bool(ring) and all(fqdn in complete for fqdn in ring)
    answer.pop("finished", None)
    if answer["complete"]:
        answer["finished"] = max(complete[fqdn]["finished"] for fqdn in ring)


def look(ini, prefix, name, heard, answer):
    import medusa.config
    from medusa.storage import Storage

    config = medusa.config.load_config(defaultdict(lambda: None), Path(ini)).storage
    if prefix:
        config = config._replace(prefix=prefix)
    with Storage(config=config) as storage:
        answer["prefix"] = storage.prefix_path.rstrip("/")
        asking = Looking(storage, heard)
        if name is None:
            everything(asking, answer)
        else:
            one(asking, name, answer)


def main():
    ini, path, prefix = sys.argv[1:4]
    name = sys.argv[4] if len(sys.argv) > 4 else None
    heard = Heard()
    logging.getLogger("").addHandler(heard)
    answer = {}
    try:
        modest()
        impatient()
        resigned()
        look_only()
        look(ini, prefix, name, heard, answer)
    except SystemExit:
        # Medusa logs what is wrong with its configuration and exits.
        answer = {"error": heard.errors[-1] if heard.errors else "Medusa refuses its configuration"}
    except MemoryError:
        answer = {"error": "the index or a manifest takes more than {} MiB of memory to read".format(MEMORY >> 20)}
    except Exception as error:
        answer = {"error": reason(error)}
    with open(path, "w") as out:
        json.dump(answer, out)
        out.flush()


main()
