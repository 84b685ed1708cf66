# Runs medusa.service.grpc.server, so that one odd backup does not keep all others
# from being listed: a backup that knows none of its nodes by name, as it is made
# while names do not resolve, ends every listing with "min() arg is an empty
# sequence" (medusa/storage/cluster_backup.py, started); and so that a backup
# which the storage refuses for good fails at once: Medusa would try for up to
# nine minutes, without a word; and so that a Medusa which knows no TLS, as those
# before 0.27, does not serve everybody where it is asked for. And so that one thing at
# a time is done to the node's backups (running.py), and what is in them is counted
# (counting.py).
#
# Arguments: "server.py" and the path of medusa.ini, as the module wants them.
import configparser
import logging
import runpy
import sys


def tolerant():
    from medusa.storage import Storage
    every = Storage.list_cluster_backups

    def list_cluster_backups(self, *args, **kwargs):
        for backup in every(self, *args, **kwargs):
            known = getattr(backup, "expected_node_backups", None)  # up to 0.28 a listing has no need of it
            if known is None or known():
                yield backup
            else:
                logging.warning("Backup %s is left out: its token map has none of its nodes %s",
                                backup.name, sorted(backup.node_backups))

    Storage.list_cluster_backups = list_cluster_backups


def never_in_the_clear():
    config = configparser.ConfigParser(interpolation=None)
    config.read(sys.argv[2])
    if not config.get("grpc", "tls_cert", fallback=""):
        return
    from grpc import aio
    make = aio.server

    def refuse(address):
        sys.exit("gRPC is not served in the clear, and this Medusa knows no TLS: take 0.27 or later "
                 "(annotation stategraft.io/medusa-image), or set annotation stategraft.io/grpc-tls to off")

    def server(*args, **kwargs):
        made = make(*args, **kwargs)
        made.add_insecure_port = refuse
        return made

    aio.server = server


def main():
    never_in_the_clear()
    # counting before alone: who counts has the turn.
    for change in (exact_index, tolerant, resigned, counting, alone, polite):
        try:
            change()
        except Exception as error:
            # Another release, which may have no need of it.
            print("Medusa is run without {}: {}".format(change.__name__, error), file=sys.stderr)
    sys.argv = ["server"] + sys.argv[1:]
    runpy.run_module("medusa.service.grpc.server", run_name="__main__", alter_sys=True)


main()
