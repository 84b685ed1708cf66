# Stands before serve.py: lets one thing at a time be done to this node's backups, and
# tells which backup is made.
#
# Nothing in Medusa keeps two backups of a node apart, nor a backup from a deletion or a
# purge, which removes the files that the backup has found in the storage and refers to
# (thelastpickle/cassandra-medusa#363). Its marker file is asked for by who has made it,
# and so never found; it also stays where the storage cannot be connected to.
#
# The file of STATEGRAFT_RUNNING is locked while something is done, so that a process
# that was killed leaves no trace; what is in it tells what (api/node, Running).
import fcntl
import inspect
import json
import logging
import os
import threading
import time
from datetime import datetime, timezone

PREPARING, UPLOADING, FINISHING = "preparing", "uploading", "finishing"


class Busy(Exception):
    pass


class Failure:
    # Why the last backup was given up, for who asks (api/node, Failed): Medusa's service
    # tells nobody, and has forgotten such a backup at once.
    def __init__(self, path):
        self.path = path

    def tell(self, name, error):
        why = "Medusa has ended it; its log tells why" if isinstance(error, SystemExit) else reason(error)
        at = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        self.write(json.dumps({"name": name, "at": at, "why": why}))

    def forget(self):
        self.write("{}")

    def write(self, text):
        if not self.path:
            return
        try:
            with open(self.path + ".new", "w") as file:
                file.write(text)
            os.replace(self.path + ".new", self.path)
        except OSError as error:
            logging.warning("Why a backup has failed cannot be told: %s", error)


FAILURE = Failure(os.environ.get("STATEGRAFT_FAILED"))


def argument(args, kwargs, position, name):
    return kwargs[name] if name in kwargs else args[position] if position < len(args) else None


class Held:
    # A turn that is taken.
    def __init__(self, kind, name):
        self.kind, self.name, self.begun, self.file = kind, name, False, None
        self.since = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")

    def write(self, phase):
        if self.file is None:
            return
        text = json.dumps({"kind": self.kind, "name": self.name, "since": self.since, "phase": phase}).encode()
        try:
            os.pwrite(self.file, text, 0)
            os.ftruncate(self.file, len(text))
        except OSError as error:
            logging.warning("What runs cannot be told: %s", error)


def idle(file):
    os.pwrite(file, b"{}", 0)
    os.ftruncate(file, 2)


class Turn:
    def __init__(self, path):
        self.path, self.mutex, self.held = path, threading.Lock(), None

    def take(self, kind, name):
        with self.mutex:
            if self.held is not None:
                raise Busy("this node is busy with {} {} since {}".format(self.held.kind, self.held.name, self.held.since).replace("  ", " "))
            held = Held(kind, name)
            held.file = self.lock()
            held.write(PREPARING)
            self.held = held
            if kind == "backup":
                FAILURE.forget()
            return held

    def lock(self):
        if not self.path:
            return None
        try:
            file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            logging.warning("What runs cannot be told: %s", error)
            return None
        # Who asks holds it for a moment.
        for _ in range(20):
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return file
            except OSError:
                time.sleep(0.02)
        os.close(file)
        raise Busy("this node discards its part of a backup")

    def begin(self, name):
        # The turn that AsyncBackup has taken for this backup, or another.
        with self.mutex:
            if self.held is not None and self.held.kind == "backup" and self.held.name == name and not self.held.begun:
                self.held.begun = True
                return self.held
        held = self.take("backup", name)
        held.begun = True
        return held

    def phase(self, phase):
        held = self.held
        if held is not None:
            held.write(phase)

    def release(self, held, unless_begun=False):
        with self.mutex:
            if self.held is not held or unless_begun and held.begun:
                return
            self.held = None
            if held.file is not None:
                idle(held.file)
                os.close(held.file)


TURN = Turn(os.environ.get("STATEGRAFT_RUNNING"))


def alone():
    from medusa import backup_node
    every = backup_node.handle_backup

    def handle_backup(*args, **kwargs):
        name = str(argument(args, kwargs, 1, "backup_name_arg") or "")
        held = TURN.begin(name)
        try:
            return every(*args, **kwargs)
        except BaseException as error:
            FAILURE.tell(name, error)
            raise
        finally:
            unmark()
            TURN.release(held)

    backup_node.handle_backup = handle_backup
    if TURN.path:
        # From here on it is the file that counts, and no longer Medusa's mark.
        file = os.open(TURN.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        idle(file)
        os.close(file)
        FAILURE.forget()


def unmark():
    # Medusa's own mark, where it has forgotten it: no other backup runs.
    try:
        from medusa.utils import MedusaTempFile
        os.unlink(MedusaTempFile._tempfile_path)
    except Exception:
        pass


def polite():
    # A backup, a deletion and a purge that would meet are refused before they begin.
    import grpc
    from medusa.service.grpc import medusa_pb2_grpc
    add = medusa_pb2_grpc.add_MedusaServicer_to_server

    def backup(call):
        async def AsyncBackup(request, context):
            if not request.name:
                return await call(request, context)
            try:
                held = TURN.take("backup", request.name)
            except Busy as busy:
                await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(busy))
            begins = False
            try:
                response = await call(request, context)
                begins = response.status == 0  # IN_PROGRESS
                return response
            finally:
                if not begins:
                    TURN.release(held, unless_begun=True)
        return AsyncBackup

    def removal(kind, call):
        def remove(request, context):
            try:
                held = TURN.take(kind, getattr(request, "name", ""))
            except Busy as busy:
                context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(busy))
            try:
                return call(request, context)
            finally:
                TURN.release(held)
        return remove

    def add_MedusaServicer_to_server(servicer, server):
        if inspect.iscoroutinefunction(servicer.AsyncBackup):
            servicer.AsyncBackup = backup(servicer.AsyncBackup)
        for method, kind in (("DeleteBackup", "the deletion of backup"), ("PurgeBackups", "a purge")):
            call = getattr(servicer, method, None)
            if call is not None and not inspect.iscoroutinefunction(call):
                setattr(servicer, method, removal(kind, call))
        add(servicer, server)

    medusa_pb2_grpc.add_MedusaServicer_to_server = add_MedusaServicer_to_server


