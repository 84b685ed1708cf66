# Runs medusa.service.grpc.restore, with these differences.
#
# It looks at the wanted backup only, which precheck.py has found good: Medusa
# lists all of them first, and one whose token map does not know its nodes'
# names keeps all others from being restored.
#
# Medusa gives each restored table to the owner and the group of the data
# directory, by name. The id need not have a name in this image, and a volume's
# root may be root's and the database's by group only; then Medusa fails after
# the old data are gone. What it moves is this user's, which is the database's,
# already.
#
# Between the download and the first change of the data the marker on the volume
# is replaced: until then what it says of an earlier restore is still true.
#
# Arguments: the path of medusa.ini, the restore key, the marker and the file
# that takes its place.
import logging
import os
import pathlib
import runpy
import sys


def quiet():
    # Else the first line that is logged, before Medusa sets its own handler up,
    # adds one that prints everything.
    logging.getLogger("").addHandler(logging.NullHandler())


def only(name):
    import medusa.listing
    from medusa.storage.cluster_backup import ClusterBackup

    def get_backups(storage, config, show_all):
        nodes = [b for b in storage.list_node_backups() if b.name == name]
        return [ClusterBackup(name, nodes)] if any(b.fqdn == config.storage.fqdn for b in nodes) else []

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


def begin(marker, following):
    os.replace(following, marker)
    directory = os.open(os.path.dirname(marker), os.O_RDONLY)
    try:
        os.fsync(directory)
    except OSError:
        pass  # not every file system can
    finally:
        os.close(directory)


def announce(marker, following):
    import medusa.restore_node
    download = getattr(medusa.restore_node, "download_data", None)
    if download is None:
        # Another release: from here on anything may happen.
        begin(marker, following)
        return

    def download_data(*args, **kwargs):
        result = download(*args, **kwargs)
        begin(marker, following)
        return result

    medusa.restore_node.download_data = download_data


def main():
    ini, key, marker, following = sys.argv[1:5]
    quiet()
    stay_owner()
    exact_index()
    only(os.environ["BACKUP_NAME"])
    announce(marker, following)
    sys.argv = ["restore", ini, key]
    runpy.run_module("medusa.service.grpc.restore", run_name="__main__", alter_sys=True)


main()
