# Stands before each of the scripts.
def exact_index():
    # Medusa finds the blobs of a node's backup by a word anywhere in their path,
    # so one backup, node or prefix whose name has "finished" or "schema" in it
    # breaks the listing of all (medusa/storage/__init__.py, lookup_blob).
    from medusa.storage import Storage

    def lookup_blob(self, blobs_by_backup, backup_name, fqdn, blob_name_chunk):
        for blob in blobs_by_backup[backup_name][fqdn]:
            if blob.name.rsplit("/", 1)[-1].startswith(blob_name_chunk + "_"):
                return blob
        return None

    Storage.lookup_blob = lookup_blob


