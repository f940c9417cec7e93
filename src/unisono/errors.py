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
        lines = [what]
        if where:
            lines.append(f"  where: {where}")
        if fix:
            lines.append(f"  fix:   {fix}")
        super().__init__("\n".join(lines))


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
