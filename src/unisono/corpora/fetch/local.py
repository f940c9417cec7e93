"""Files that need no network: those already here, and those in a directory of the user's."""

import os
from collections.abc import Generator, Iterable
from dataclasses import replace
from pathlib import Path

from unisono.corpora.fetch.failures import MisfitError
from unisono.corpora.fetch.part import Origin, Part
from unisono.corpora.fetch.remote import Fetched, Received, Remote
from unisono.corpora.fetch.room import check_room
from unisono.corpora.fetch.verify import CHUNK, verified
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


def candidates(remote: Remote, given: Path) -> list[Path]:
    """Return the files of that name in `given` and in the directories within it."""
    if not given.is_dir():
        raise DataError(
            f"{given} is not a directory",
            where=f"--from {given}",
            fix="name the directory that holds the downloaded files",
        )
    inner = sorted(entry for entry in given.iterdir() if entry.is_dir())
    paths = [directory / remote.name for directory in (given, *inner)]
    return [path for path in paths if path.is_file()]


def take_given(
    remote: Remote, paths: Iterable[Path], target: Path
) -> Generator[Received, None, Fetched]:
    """Put the first of `paths` that is the file at `target`; refuse if none is."""
    reasons = []
    for path in paths:
        try:
            found = verified(remote, path)
        except MisfitError as error:
            reasons.append(f"    {path}: {error.reason}")
            continue
        try:
            os.link(path.resolve(), target)
        except OSError:  # another disk, or one that knows no links
            yield from _copy(path, found, target)
        yield Received(remote.name, found.bytes, found.bytes)
        return replace(found, path=target)
    raise DataError(
        "\n".join([f"{remote.name} was given, but it is not the file it should be:", *reasons]),
        where=str(target),
        fix="download it again, or leave it out of the directory given with --from",
    )


def _copy(path: Path, found: Fetched, target: Path) -> Generator[Received, None, None]:
    with Part(target) as part, path.open("rb") as file:
        check_room(target, found.bytes - part.size)
        part.begin(Origin())
        while data := file.read(CHUNK):
            part.append(data)
            yield Received(target.name, part.size, found.bytes)
        if part.digests.sha256 != found.sha256:
            part.clear()
            raise DataError(
                f"{path} changed while it was copied", where=str(path), fix="try again"
            )
        part.finish()


def not_here(remotes: Iterable[Remote], directory: Path) -> DataError:
    """Return the error for files that are missing and may not be downloaded."""
    listed = "\n".join(f"    {remote.described}" for remote in remotes)
    return DataError(
        f"these files are missing, and --offline forbids to download them:\n{listed}",
        where=str(directory),
        fix="leave --offline out; or download them by hand and name their directory with"
        " --from DIR",
    )
