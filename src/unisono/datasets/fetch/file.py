"""Files that need no network: those already here, and those in a directory of the user's.

Bring one file here: from where it already is, from a directory, or from the network.
"""

from collections.abc import Generator, Iterable
from pathlib import Path

from unisono.datasets.fetch.download import download
from unisono.datasets.fetch.failures import MisfitError
from unisono.datasets.fetch.partial_file import verified
from unisono.datasets.fetch.remote import Fetched, Received, Remote
from unisono.datasets.fetch.retry import USUAL, RetryPolicy
from unisono.errors import DataError
from unisono.lock import only_one


def already_here(remote: Remote, target: Path) -> Fetched:
    """Return what `target` is; refuse to use it, and to replace it, if it is something else."""
    try:
        return verified(remote, target)
    except MisfitError as error:
        raise DataError(
            f"{target.name} is there, but it is not the file it should be: {error.reason}",
            where=str(target),
            fix="move it away or delete it, then call this again",
        ) from None


def check_given(given: Path) -> None:
    """Refuse a directory of the user's that is none."""
    if not given.is_dir():
        raise DataError(
            f"{given} is not a directory",
            where=f"--from {given}",
            fix="name the directory that holds the downloaded files",
        )


def candidates(remote: Remote, given: Path) -> list[Path]:
    """Return the files of its names in `given` and in the directories within it."""
    check_given(given)
    inner = sorted(entry for entry in given.iterdir() if entry.is_dir())
    names = (remote.name, *remote.aliases)
    paths = [directory / name for name in names for directory in (given, *inner)]
    return [path for path in paths if path.is_file()]


def take_given(remote: Remote, paths: Iterable[Path]) -> Fetched:
    """Return the first of `paths` that is the file, where it lies; refuse if none is."""
    reasons = []
    for path in paths:
        try:
            return verified(remote, path)
        except MisfitError as error:
            reasons.append(f"    {path}: {error.reason}")
    raise DataError(
        "\n".join([f"{remote.name} was given, but it is not the file it should be:", *reasons]),
        where="--from",
        fix="download it again, or leave it out of the directory given with --from",
    )


def not_here(remotes: Iterable[Remote], directory: Path) -> DataError:
    """Return the error for files that are missing and may not be downloaded."""
    listed = "\n".join(f"    {remote.described}" for remote in remotes)
    return DataError(
        f"these files are missing, and --offline forbids to download them:\n{listed}",
        where=str(directory),
        fix="leave --offline out; or download them by hand, save them under these names, and"
        " name their directory with --from DIR",
    )


def fetch(
    remote: Remote,
    directory: Path,
    *,
    given: Path | None = None,
    offline: bool = False,
    patience: RetryPolicy = USUAL,
) -> Generator[Received, None, Fetched]:
    """Yield progress until `remote` is here, and return what it is and where it lies.

    A file that is in `directory` already is checked and used; one in `given`, or in a
    directory within it, is checked and used where it lies. Only then the network is
    asked, and never if `offline`. What a stopped download leaves behind is continued by the
    next one.
    """
    try:
        return (yield from _fetch(remote, directory, given, offline, patience))
    except OSError as error:  # the disk: what the network raises is dealt with further down
        raise DataError(
            f"{remote.name} cannot be stored: {error.strerror or error}",
            where=str(error.filename or directory),
            fix="make room or choose another directory; a download continues where it stopped",
        ) from error


def missing(
    remotes: Iterable[Remote], directory: Path, *, given: Path | None = None
) -> tuple[Remote, ...]:
    """Return those of `remotes` that only the network can bring."""
    return tuple(
        remote
        for remote in remotes
        if not (directory / remote.name).exists()
        and not (given is not None and candidates(remote, given))
    )


def require(remotes: Iterable[Remote], directory: Path, *, given: Path | None = None) -> None:
    """Refuse, with a list of all, if any of `remotes` would have to be downloaded."""
    if absent := missing(remotes, directory, given=given):
        raise not_here(absent, directory)


def _fetch(
    remote: Remote, directory: Path, given: Path | None, offline: bool, patience: RetryPolicy
) -> Generator[Received, None, Fetched]:
    target = directory / remote.name
    if offline:
        require([remote], directory, given=given)
    paths = candidates(remote, given) if given is not None and not target.exists() else []
    if paths:
        found = take_given(remote, paths)
        yield Received(remote.name, found.bytes, found.bytes)
        return found
    if not target.exists():
        directory.mkdir(parents=True, exist_ok=True)
        again = "wait until it has finished, then call this again"
        with only_one(target, doing=f"downloading {target.name}", fix=again):
            if not target.exists():  # nobody was quicker
                return (yield from download(remote, target, patience))
    found = already_here(remote, target)
    yield Received(remote.name, found.bytes, found.bytes)
    return found
