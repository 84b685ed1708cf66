# Stands before the scripts that ask the storage something.
import json
import logging
import os
import re
import resource
from collections import defaultdict
from pathlib import Path

# Of this program's memory, in bytes: the container is Medusa's, which may be in
# the middle of a backup, and kubelet ends all of it where it takes too much.
MEMORY = 512 << 20


def modest():
    # The first to go where memory or CPU is short. What the system does not allow
    # is not needed.
    for change in (lambda: resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY)),
                   lambda: Path("/proc/self/oom_score_adj").write_text("1000"), lambda: os.nice(10)):
        try:
            change()
        except Exception:
            pass


def impatient():
    # Medusa tries for more than six minutes before it tells that there is no
    # storage; kubelet tries a failed init container again anyway. Tries are
    # nested, so two make four.
    from tenacity.stop import stop_after_attempt
    from tenacity.wait import wait_fixed
    for each in retrying():
        each.stop = stop_after_attempt(2)
        each.wait = wait_fixed(2)


def look_only():
    # Medusa's listing removes what it takes for stale from the index.
    from medusa.storage import Storage
    Storage.remove_backup_from_index = lambda self, backup: None


class Heard(logging.Handler):
    # What Medusa logs as an error: where it exits, that says why.
    def __init__(self):
        super().__init__(logging.ERROR)
        self.errors = []

    def emit(self, record):
        self.errors.append(record.getMessage())


# The index is read here and not by Storage.list_node_backups, which ends at the
# first name that it does not know, and asks for each tokenmap of each backup.
# This is what is in the index of a backup (medusa/index.py).
STAMPED = re.compile(r"^(started|finished)_(.+)_([0-9]+)\.timestamp$")
PLAIN = re.compile(r"^(?:(tokenmap|manifest)_(.+)\.json|(schema)_(.+)\.cql|(differential|incremental)_(.+))$")


class Unclear(Exception):
    # The storage gave no answer, where Medusa says that there is no such object.
    pass


class Odd(Exception):
    # Not what Medusa writes.
    pass


class Node:
    # A node's part in a backup, by the index.
    def __init__(self):
        self.blobs = {}
        self.starts, self.ends = [], []

    def started(self):
        if self.starts:
            return min(self.starts)
        return seconds(self.blobs.get("schema"))  # as NodeBackup.started

    def finished(self):
        if self.ends:
            return max(self.ends)
        return seconds(self.blobs.get("manifest"))  # as NodeBackup.finished

    def differential(self):
        return "differential" in self.blobs or "incremental" in self.blobs


def seconds(blob):
    return int(blob.last_modified.timestamp()) if blob is not None and blob.last_modified is not None else None


def indexed(storage, name=None):
    # Backup → node → Node. What has a name of another kind is passed over.
    root = "{}index/backup_index/".format(storage.prefix_path)
    found = defaultdict(lambda: defaultdict(Node))
    for blob in storage.storage_driver.list_objects(root if name is None else root + name + "/"):
        parts = blob.name[len(root):].split("/") if blob.name.startswith(root) else []
        if len(parts) != 2 or name is not None and parts[0] != name:
            continue
        stamped, plain = STAMPED.match(parts[1]), PLAIN.match(parts[1])
        if stamped:
            node = found[parts[0]][stamped.group(2)]
            (node.starts if stamped.group(1) == "started" else node.ends).append(int(stamped.group(3)))
        elif plain:
            kind, fqdn = [each for each in plain.groups() if each is not None]
            found[parts[0]][fqdn].blobs[kind] = blob
    # Medusa knows a backup by its token map, and needs to know when it began.
    counting = ((each, {fqdn: node for fqdn, node in nodes.items() if "tokenmap" in node.blobs and node.started() is not None})
                for each, nodes in found.items())
    return {each: nodes for each, nodes in counting if nodes}


def odd(error):
    # What is wrong is the object itself, and not that the storage cannot be asked.
    answer = getattr(error, "response", None)  # botocore
    if isinstance(answer, dict):
        return answer.get("Error", {}).get("Code") in ("NoSuchKey", "InvalidObjectState")
    status = getattr(error, "status_code", None) or getattr(error, "status", None)  # azure, aiohttp
    return status == 404 or isinstance(error, (Odd, UnicodeDecodeError, FileNotFoundError))


def twice(question):
    try:
        return question()
    except Exception as error:
        if odd(error) or refused(error):
            raise
    return question()


class Asking:
    def __init__(self, storage, heard):
        self.storage, self.heard = storage, heard

    def ask(self, what, question):
        # Medusa takes an answer that it does not understand for "there is none".
        before = len(self.heard.errors)
        answer = question()
        if answer is None and len(self.heard.errors) > before:
            raise Unclear("{}: {}".format(what, self.heard.errors[before]))  # the first has the cause
        return answer

    def backup(self, name, fqdn, node):
        return self.storage.get_node_backup(fqdn=fqdn, name=name, differential_mode=node.differential())

    def there(self, index):
        # The index outlives backups that the bucket itself expires: the oldest are
        # asked for, up to the first that is there.
        names = sorted(index, key=lambda name: (min(node.started() for node in index[name].values()), name))
        for at, name in enumerate(names):
            fqdn = min(index[name], key=lambda fqdn: (index[name][fqdn].finished() is None, fqdn))
            if self.ask(name, lambda: True if self.backup(name, fqdn, index[name][fqdn]).exists() else None):
                return names[at:]
        return []


def counted(asking, name, fqdn):
    # What counting.py has stored, or None.
    path = "{}{}/{}/meta/stategraft.json".format(asking.storage.prefix_path, fqdn, name)
    text = asking.ask("the counts of node " + fqdn, lambda: asking.storage.storage_driver.get_blob_content_as_string(path))
    if text is None:
        return None
    try:
        return {"version": int(json.loads(text)["version"]), "tables": list(json.loads(text)["tables"])}
    except (ValueError, TypeError, KeyError) as error:
        raise Odd("the counts of node {}: {}".format(fqdn, reason(error)))


