"""Files that need no network: those already here, and those in a directory of the user's."""

from collections.abc import Iterable
from pathlib import Path

from unisono.corpora.fetch.failures import MisfitError
from unisono.corpora.fetch.remote import Fetched, Remote
from unisono.corpora.fetch.verify import verified
from unisono.errors import DataError


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
