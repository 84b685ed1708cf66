# Removes this node's part of a backup that is not complete, with Medusa's own code:
# what Medusa finds there when it is asked for one of the same name again, it takes for a
# backup that exists. What differential backups share, NODE/data, stays.
#
# Arguments: the path of medusa.ini, the path of the answer, and the name of the backup.
# The answer is Discarded of api/node; its "kept" says why nothing was removed, its
# "error" what kept it from being done.
import json
import logging
import sys
from collections import defaultdict
from pathlib import Path

# Names that are those of directories of Medusa's own, beside the backups'.
RESERVED = ("data", "index", "meta", ".", "..", "")


class Kept(Exception):
    pass


def below(storage, root):
    return [blob for blob in storage.storage_driver.list_objects(root) if blob.name.startswith(root)]


def entries(storage, fqdn, name):
    # The node's in the index of the backup.
    root, found = "{}index/backup_index/{}/".format(storage.prefix_path, name), []
    for blob in below(storage, root):
        stamped, plain = STAMPED.match(blob.name[len(root):]), PLAIN.match(blob.name[len(root):])
        whose = stamped.group(2) if stamped else [each for each in plain.groups() if each is not None][1] if plain else None
        if whose == fqdn:
            found.append(blob)
    return found


def objects(storage, manifest):
    try:
        return sum(len(section["objects"]) for section in json.loads(twice(lambda: storage.storage_driver.read_blob_as_string(manifest))))
    except (ValueError, TypeError, KeyError) as error:
        raise Kept("its manifest is there and cannot be read: {}".format(reason(error)))


def remove(storage, fqdn, name, answer):
    root = "{}{}/{}/".format(storage.prefix_path, fqdn, name)
    own, index = below(storage, root), entries(storage, fqdn, name)
    for blob in own:
        if blob.name == root + "meta/manifest.json" and objects(storage, blob) > 0:
            raise Kept("it is complete")
    # As long as there is anything, Medusa and the catalogue know of it: first the data,
    # the schema, by which Medusa knows a backup, after the rest of meta/, and at last the
    # index, with the token map as its end.
    def rank(blob):
        if blob in index:
            return 4 if blob.name.rsplit("/", 1)[-1].startswith("tokenmap_") else 3
        return 2 if blob.name == root + "meta/schema.cql" else 1 if blob.name.startswith(root + "meta/") else 0

    answer["objects"] = 0
    for step in range(5):
        some = [blob for blob in own + index if rank(blob) == step]
        if some:
            storage.storage_driver.delete_objects(some)
            answer["objects"] += len(some)
    left = below(storage, root) + entries(storage, fqdn, name)
    if left:
        raise RuntimeError("{} objects are still there, the first is {}".format(len(left), left[0].name))


def discard(ini, name, answer):
    import medusa.config
    from medusa.storage import Storage

    if name in RESERVED or "/" in name:
        raise Kept("no backup is called so")
    config = medusa.config.load_config(defaultdict(lambda: None), Path(ini)).storage
    answer.update(node=config.fqdn, name=name)
    with Storage(config=config) as storage:
        remove(storage, config.fqdn, name, answer)


def main():
    ini, path, name = sys.argv[1:4]
    heard = Heard()
    logging.getLogger("").addHandler(heard)
    answer = {}
    try:
        modest()
        impatient()
        resigned()
        discard(ini, name, answer)
    except SystemExit:
        # Medusa logs what is wrong with its configuration and exits.
        answer = {"error": heard.errors[-1] if heard.errors else "Medusa refuses its configuration"}
    except Kept as kept:
        answer = {"kept": str(kept)}
    except MemoryError:
        answer = {"error": "the backup's objects take more than {} MiB of memory to list".format(MEMORY >> 20)}
    except Exception as error:
        answer = {"error": reason(error)}
    with open(path, "w") as out:
        json.dump(answer, out)
        out.flush()


main()
