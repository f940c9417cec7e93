"""Bring one file here: the one already here, one from a given directory, or a download.

A download tries one address after another, and each again as long as that makes sense.
"""

from collections.abc import Generator, Iterable, Iterator
from pathlib import Path

from unisono.datasets.fetch.attempt import attempt
from unisono.datasets.fetch.partial_file import PartialFile, check_room, verified
from unisono.datasets.fetch.remote import Fetched, Received, Remote
from unisono.datasets.fetch.response import addresses
from unisono.datasets.fetch.retry import (
    DEFAULT_POLICY,
    AttemptError,
    MisfitError,
    RetryBudget,
    RetryPolicy,
)
from unisono.errors import DataError
from unisono.lock import only_one
from unisono.units import amount_of_bytes, duration


def download(
    remote: Remote, target: Path, policy: RetryPolicy
) -> Generator[Received, None, Fetched]:
    """Yield progress until the file is at `target`, and return what it is."""
    reasons = []
    with PartialFile(target) as part:
        check_room(target, remote.bytes - part.size)
        for url in addresses(remote):
            try:
                yield from _from_one(remote, url, part, policy)
            except AttemptError as error:
                reasons.append(f"{url}: {error.reason}")
            else:
                part.finish()
                found = part.digests
                return Fetched(target, part.origin.url, part.size, found.sha256, found.md5)
        raise _all_failed(remote, part, reasons)


def _from_one(
    remote: Remote, url: str, part: PartialFile, policy: RetryPolicy
) -> Iterator[Received]:
    """Fill `part` from `url`, with as many attempts as the policy allows."""
    budget, from_start = RetryBudget(part.size, policy), False
    while True:
        try:
            yield from attempt(remote, url, part, policy, from_start=from_start)
        except AttemptError as error:
            from_start = isinstance(error, MisfitError)
            pause = budget.pause_after(error, part.size)
            then = "starting over" if from_start else f"next try in {duration(pause)}"
            note = f"{error.reason}; {then}"
        else:
            return
        yield Received(remote.name, part.size, remote.bytes or part.origin.total, note)
        policy.sleep(pause)


def _all_failed(remote: Remote, part: PartialFile, reasons: list[str]) -> DataError:
    goes_on = part.size and (remote.has_checksum or part.origin.version)
    kept = f" ({amount_of_bytes(part.size)} arrived and are kept)" if goes_on else ""
    tried = "\n".join(f"    {reason}" for reason in reasons) or "    no address is known"
    again = "try again: it continues where it stopped" if goes_on else "try again later"
    return DataError(
        f"{remote.name} could not be downloaded{kept}:\n{tried}",
        where=str(part.target),
        fix=f"{again}; or download it by hand, save it as {remote.name}, and name its"
        " directory with --from DIR",
    )


def already_here(remote: Remote, target: Path) -> Fetched:
    """Verify the file at `target`; neither use nor replace it if it is another one."""
    try:
        return verified(remote, target)
    except MisfitError as error:
        raise DataError(
            f"{target.name} exists, but it is not the file it should be: {error.reason}",
            where=str(target),
            fix="move it away or delete it, then try again",
        ) from None


def check_given(given: Path) -> None:
    """Refuse a path that is not a directory."""
    if not given.is_dir():
        raise DataError(
            f"{given} is not a directory",
            where=f"--from {given}",
            fix="name the directory that holds the downloaded files",
        )


def candidates(remote: Remote, given: Path) -> list[Path]:
    """Return the files with its names in `given` and in the directories within it."""
    check_given(given)
    inner = sorted(entry for entry in given.iterdir() if entry.is_dir())
    names = (remote.name, *remote.aliases)
    paths = [directory / name for name in names for directory in (given, *inner)]
    return [path for path in paths if path.is_file()]


def take_given(remote: Remote, paths: Iterable[Path]) -> Fetched:
    """Return the first of `paths` that is the file; refuse if none is."""
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
    """Return the error for missing files that must not be downloaded."""
    listed = "\n".join(remote.described for remote in remotes)
    return DataError(
        f"these files are missing, and --offline forbids downloads:\n{listed}",
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
    policy: RetryPolicy = DEFAULT_POLICY,
) -> Generator[Received, None, Fetched]:
    """Yield progress until `remote` is here; return its path, size and checksums.

    A file that is in `directory` already is verified and used; so is one in `given` or in a
    directory within it, which stays where it is. Otherwise, and unless `offline`, it is
    downloaded; an interrupted download continues where it stopped.
    """
    try:
        return (yield from _fetch(remote, directory, given, offline, policy))
    except OSError as error:  # of the disk: those of the network are handled further down
        raise DataError(
            f"{remote.name} cannot be stored: {error.strerror or error}",
            where=str(error.filename or directory),
            fix="make room or choose another directory; a download continues where it stopped",
        ) from error


def missing(
    remotes: Iterable[Remote], directory: Path, *, given: Path | None = None
) -> tuple[Remote, ...]:
    """Return those of `remotes` that have to be downloaded."""
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
    remote: Remote, directory: Path, given: Path | None, offline: bool, policy: RetryPolicy
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
        again = "wait until it has finished, then try again"
        with only_one(target, doing=f"downloading {target.name}", fix=again):
            if not target.exists():  # no other process was faster
                return (yield from download(remote, target, policy))
    found = already_here(remote, target)
    yield Received(remote.name, found.bytes, found.bytes)
    return found
