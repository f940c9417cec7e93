"""Bring one file here: from where it already is, from a directory, or from the network."""

from collections.abc import Generator, Iterable
from pathlib import Path

from unisono.corpora.fetch.download import download
from unisono.corpora.fetch.local import already_here, candidates, not_here, take_given
from unisono.corpora.fetch.patience import USUAL, Patience
from unisono.corpora.fetch.remote import Fetched, Received, Remote
from unisono.errors import DataError
from unisono.lock import only_one


def fetch(
    remote: Remote,
    directory: Path,
    *,
    given: Path | None = None,
    offline: bool = False,
    patience: Patience = USUAL,
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
    remote: Remote, directory: Path, given: Path | None, offline: bool, patience: Patience
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
