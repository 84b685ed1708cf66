# Tells what was counted of a node's part in a backup when that was made (counting.py),
# with Medusa's own code.
#
# Arguments: the path of medusa.ini, the path of the answer, the prefix to look below
# (empty for that of medusa.ini, "." for none), the name of the backup, and of the node.
# The answer's "contents" is Contents of api/node, or null where there is none; its
# "error" says what kept it from being made. Nothing is written to the storage.
import json
import logging
import sys
from collections import defaultdict
from pathlib import Path


def look(ini, prefix, name, fqdn, heard, answer):
    import medusa.config
    from medusa.storage import Storage

    config = medusa.config.load_config(defaultdict(lambda: None), Path(ini)).storage
    if prefix:
        config = config._replace(prefix=prefix)
    with Storage(config=config) as storage:
        answer["contents"] = counted(Asking(storage, heard), name, fqdn)


def main():
    ini, path, prefix, name, fqdn = sys.argv[1:6]
    heard = Heard()
    logging.getLogger("").addHandler(heard)
    answer = {}
    try:
        modest()
        impatient()
        resigned()
        look(ini, prefix, name, fqdn, heard, answer)
    except SystemExit:
        # Medusa logs what is wrong with its configuration and exits.
        answer = {"error": heard.errors[-1] if heard.errors else "Medusa refuses its configuration"}
    except Exception as error:
        answer = {"error": reason(error)}
    with open(path, "w") as out:
        json.dump(answer, out)
        out.flush()


main()
