# Runs medusa.service.grpc.restore, with these differences.
#
# It looks at the wanted backup only, which precheck.py has found good: Medusa
# lists all of them first, and one whose token map does not know its nodes'
# names keeps all others from being restored, as does a name in the index that it
# does not know.
#
# Medusa gives each restored table to the owner and the group of the data
# directory, by name. The id need not have a name in this image, and a volume's
# root may be root's and the database's by group only; then Medusa fails after
# the old data are gone. What it moves is this user's, which is the database's,
# already.
#
# Between the download and the first change of the data the agent is asked, which
# sets the old data aside and notes on the volume that they are being replaced. It
# answers "go"; anything else, and the agent's own end, is a no.
#
# Of another cluster's backup, Medusa leaves out the tables system.local and
# system.peers, but also every table of the users whose name begins with "peers"
# (medusa/restore_node.py, maybe_restore_section: "and" binds before "or").
#
# What botocore meets with while it tries again is logged.
#
# Arguments: the path of medusa.ini, the restore key, and the descriptors to ask
# with and to be answered by.
import logging
import os
import pathlib
import runpy
import sys


def quiet():
    # Else the first line that is logged, before Medusa sets its own handler up,
    # adds one that prints everything.
    logging.getLogger("").addHandler(logging.NullHandler())


def outspoken():
    # botocore tries again for half a minute and longer without a word: what it met
    # with it logs for debugging only (botocore/endpoint.py).
    class Tries(logging.Handler):
        def emit(self, record):
            if record.exc_info and record.exc_info[1] is not None:
                error = record.exc_info[1]
                logging.warning("the storage does not answer: %s: %s", type(error).__name__, error)

    log = logging.getLogger("botocore.endpoint")
    log.setLevel(logging.DEBUG)
    log.addHandler(Tries(logging.DEBUG))


def only(name):
    import medusa.listing
    from medusa.storage.cluster_backup import ClusterBackup

    def get_backups(storage, config, show_all):
        node = storage.get_node_backup(fqdn=config.storage.fqdn, name=name)
        return [ClusterBackup(name, [node])] if node.exists() else []

    medusa.listing.get_backups = get_backups


def stay_owner():
    def owner(self, **_):
        return str(os.geteuid())

    def group(self, **_):
        gid = self.stat().st_gid
        return str(gid if gid in os.getgroups() else os.getegid())

    if os.geteuid() != 0:
        pathlib.Path.owner = owner
        pathlib.Path.group = group


def begin(ask, answer):
    with os.fdopen(ask, "wb", buffering=0) as out:
        out.write(b"?")
    with os.fdopen(answer, "rb") as back:
        if back.read() != b"go":
            sys.exit("the agent does not let the data be replaced")


def announce(ask, answer):
    import medusa.restore_node
    download = getattr(medusa.restore_node, "download_data", None)
    if download is None:
        # Another release: from here on anything may happen.
        begin(ask, answer)
        return

    def download_data(*args, **kwargs):
        result = download(*args, **kwargs)
        begin(ask, answer)
        return result

    medusa.restore_node.download_data = download_data


def peers_of_users():
    import medusa.restore_node
    restore = getattr(medusa.restore_node, "maybe_restore_section", None)
    if restore is None:
        return

    def maybe_restore_section(section, download, data, in_place, *args, **kwargs):
        if section["columnfamily"].startswith("peers") and not section["keyspace"].startswith("system"):
            in_place = True
        return restore(section, download, data, in_place, *args, **kwargs)

    medusa.restore_node.maybe_restore_section = maybe_restore_section


def main():
    ini, key, ask, answer = sys.argv[1:5]
    quiet()
    outspoken()
    stay_owner()
    exact_index()
    only(os.environ["BACKUP_NAME"])
    announce(int(ask), int(answer))
    peers_of_users()
    sys.argv = ["restore", ini, key]
    runpy.run_module("medusa.service.grpc.restore", run_name="__main__", alter_sys=True)


main()
