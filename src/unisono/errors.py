"""Errors a user can act on.

Every error raised on purpose answers three questions: what happened, where, and what to
do next. The command line prints the answers without a traceback. Anything that is not a
`UnisonoError` is a bug in Unisono and keeps its traceback.

* UnisonoError           exit code 1
  - ConfigError          exit code 2   the settings are wrong; nothing was started
  - DataError            exit code 3   a file does not contain what it should
  - RunError             exit code 4   training cannot go on
  - PeerFailedError      exit code of the process that failed and reports why
  - PeerLostError        exit code 76  this process lost contact with another one
"""

import errno
import os
from collections.abc import Iterable
from difflib import get_close_matches

from unisono.exit_codes import BAD_DATA, BAD_SETTINGS, FAILED, RESTARTABLE, RUN_BROKEN


class UnisonoError(Exception):
    """The parent of all errors that the user can fix."""

    exit_code = FAILED

    def __init__(
        self, what: str, *, where: str = "", fix: str = "", exit_code: int | None = None
    ) -> None:
        self.what, self.where, self.fix = what, where, fix
        if exit_code is not None:
            self.exit_code = exit_code
        super().__init__(what)  # the rest follows it from process to process as attributes

    def __str__(self) -> str:
        # Further lines are indented, so that a name with a line break cannot pose as one.
        parts = [("", self.what), ("  where: ", self.where), ("  fix:   ", self.fix)]
        lines = [
            head + text.replace("\n", "\n    ") for head, text in parts if text or not head
        ]
        return "\n".join(lines)


class ConfigError(UnisonoError):
    """The settings are wrong; nothing has been started."""

    exit_code = BAD_SETTINGS


class DataError(UnisonoError):
    """A file does not contain what it should."""

    exit_code = BAD_DATA


class RunError(UnisonoError):
    """Training cannot go on."""

    exit_code = RUN_BROKEN


class PeerFailedError(RunError):
    """Another process of the run failed and reports why; this one has nothing to add."""


class PeerLostError(RunError):
    """This process lost contact with another one; the same command continues the run."""

    exit_code = RESTARTABLE


def suggest(word: str, known: Iterable[str]) -> str:
    """Return a fix for a name that is not among `known`: the likely one, then all of them."""
    names = sorted(known)
    close = get_close_matches(word, names, n=1)
    hint = f"did you mean `{close[0]}`? " if close else ""
    return f"{hint}known: {', '.join(names)}"


_FIXES = {
    errno.ENOSPC: "free some disk space",
    errno.EDQUOT: "free some of your quota",
    errno.EFBIG: "raise the limit on the size of a file (`ulimit -f unlimited`)",
    errno.EMFILE: "raise the limit on open files (`ulimit -n 4096`)",
    errno.ENFILE: "close other programs: the system has no file handles left",
    errno.EROFS: "make the file system writable",
    errno.EACCES: "check the permissions there",
    errno.EPERM: "check the permissions there",
    errno.EIO: "check the disk and the system's log",
    errno.ESTALE: "mount the file system again",
    errno.ENOMEM: "free some memory, or raise the limit on it (`ulimit -v unlimited`)",
    errno.EAGAIN: "raise the limit on processes (`ulimit -u`)",
}
# What Python, the dynamic linker and torch say where the C library says ENOMEM or EAGAIN.
_MEMORY = ("failed to map segment", "cannot allocate memory", "can't allocate memory")
_THREADS = ("can't start new thread",)
_NO_TEMPORARY = "No usable temporary directory"  # a full disk, or none that may be written


def explain(error: BaseException | None) -> RunError | None:
    """Return the error to show if the system refused something; None for anything else."""
    if isinstance(error, OSError) and error.errno in _FIXES:
        where = str(error.filename or "")
        return _refused(os.strerror(error.errno), _FIXES[error.errno], where)
    if isinstance(error, MemoryError):
        return _refused("out of memory", _FIXES[errno.ENOMEM])
    if isinstance(error, OSError) and _NO_TEMPORARY in str(error.strerror):
        fix = "free some disk space, or set TMPDIR to a directory in which you may write"
        return _refused("no file can be written to any temporary directory", fix)
    text = str(error) if isinstance(error, ImportError | RuntimeError | OSError) else ""
    if any(words.lower() in text.lower() for words in _MEMORY):
        return _refused("out of memory", _FIXES[errno.ENOMEM], text.partition("\n")[0])
    if any(words in text for words in _THREADS):
        return _refused("no more threads or processes", _FIXES[errno.EAGAIN])
    return None


def _refused(what: str, fix: str, where: str = "") -> RunError:
    again = "then the same command continues, or starts over"
    return RunError(f"the system refuses: {what}", where=where, fix=f"{fix}; {again}")
