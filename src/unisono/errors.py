"""Errors a user can act on.

Every error raised on purpose answers three questions: what happened, where, and what to
do next. The command line prints the three lines and no traceback; anything that is not a
`UnisonoError` is a bug in Unisono and keeps its traceback.

* UnisonoError            exit code 1
  - ConfigError            exit code 2   the settings are wrong; nothing was started
  - DataError              exit code 3   a file does not hold what it should
  - RunError               exit code 4   training cannot go on
  - DismissedError         exit code of the process of the run that reports why
  - LostError              exit code 76  contact with another process was lost
"""

from collections.abc import Iterable
from difflib import get_close_matches


class UnisonoError(Exception):
    """Base of all errors that are the user's to fix."""

    exit_code = 1

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

    exit_code = 2


class DataError(UnisonoError):
    """A file does not hold what it should."""

    exit_code = 3


class RunError(UnisonoError):
    """Training cannot go on."""

    exit_code = 4


class DismissedError(RunError):
    """Another process of the run failed and reports why; this one has nothing to add."""


class LostError(RunError):
    """Contact with another process was lost; the same command continues the run."""

    exit_code = 76


def suggest(word: str, known: Iterable[str]) -> str:
    """Return a fix for a name that is not among `known`: the likely one, then all."""
    names = sorted(known)
    close = get_close_matches(word, names, n=1)
    hint = f"did you mean `{close[0]}`? " if close else ""
    return f"{hint}known: {', '.join(names)}"
