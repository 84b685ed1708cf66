# Stands before each of the scripts.
import sys


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


def refused(error):
    # An answer that stays the same however often it is asked for: the login is
    # wrong or has no rights, the bucket is not there.
    attempt = getattr(error, "last_attempt", None)
    if attempt is not None:
        return refused(attempt.exception())
    answer = getattr(error, "response", None)  # botocore
    if isinstance(answer, dict):
        if answer.get("Error", {}).get("Code") == "NoSuchBucket":
            return True
        status = answer.get("ResponseMetadata", {}).get("HTTPStatusCode")
    else:
        status = getattr(error, "status_code", None) or getattr(error, "status", None)  # azure, aiohttp
    return status in (401, 403)


def reason(error):
    # tenacity hides the cause of what it gave up on.
    while getattr(error, "last_attempt", None) is not None and error.last_attempt.exception() is not None:
        error = error.last_attempt.exception()
    text = str(error).strip() or type(error).__name__
    if isinstance(error, AttributeError) and "access_key" in text:
        return "the storage Secret holds no credentials that can be read"
    return "{}: {}".format(type(error).__name__, text.splitlines()[0])


def retrying():
    # What tries again and again in Medusa's storage; each of them tells by what.
    import medusa.storage  # with all providers
    classes = {member for name, module in list(sys.modules.items()) if name.startswith("medusa.storage")
               for member in vars(module).values() if isinstance(member, type)}
    for owner in classes:
        for member in vars(owner).values():
            found = getattr(member, "retry", None)
            if hasattr(found, "stop"):
                yield found


def resigned():
    from tenacity import retry_if_exception
    for each in retrying():
        each.retry = retry_if_exception(lambda error: not refused(error))
