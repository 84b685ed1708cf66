# Runs medusa.service.grpc.server, so that one odd backup does not keep all others
# from being listed: a backup that knows none of its nodes by name, as it is made
# while names do not resolve, ends every listing with "min() arg is an empty
# sequence" (medusa/storage/cluster_backup.py, started); and so that a backup
# which the storage refuses for good fails at once: Medusa would try for up to
# nine minutes, without a word.
#
# Arguments: "server.py" and the path of medusa.ini, as the module wants them.
import logging
import runpy
import sys


def tolerant():
    from medusa.storage import Storage
    every = Storage.list_cluster_backups

    def list_cluster_backups(self, *args, **kwargs):
        for backup in every(self, *args, **kwargs):
            if backup.expected_node_backups():
                yield backup
            else:
                logging.warning("Backup %s is left out: its token map has none of its nodes %s",
                                backup.name, sorted(backup.node_backups))

    Storage.list_cluster_backups = list_cluster_backups


def main():
    for change in (exact_index, tolerant, resigned):
        try:
            change()
        except Exception as error:
            # Another release, which may have no need of it.
            print("Medusa is run without {}: {}".format(change.__name__, error), file=sys.stderr)
    sys.argv = ["server"] + sys.argv[1:]
    runpy.run_module("medusa.service.grpc.server", run_name="__main__", alter_sys=True)


main()
