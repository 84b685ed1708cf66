# Stands before the scripts that ask the storage something and change nothing.
import logging


def impatient():
    # Medusa tries for more than six minutes before it tells that there is no
    # storage; kubelet tries a failed init container again anyway. Tries are
    # nested, so two make four.
    from tenacity.stop import stop_after_attempt
    from tenacity.wait import wait_fixed
    for each in retrying():
        each.stop = stop_after_attempt(2)
        each.wait = wait_fixed(2)


def reason(error):
    # tenacity hides the cause of what it gave up on.
    while getattr(error, "last_attempt", None) is not None and error.last_attempt.exception() is not None:
        error = error.last_attempt.exception()
    text = str(error).strip() or type(error).__name__
    if isinstance(error, AttributeError) and "access_key" in text:
        return "the storage Secret holds no credentials that can be read"
    return "{}: {}".format(type(error).__name__, text.splitlines()[0])


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
