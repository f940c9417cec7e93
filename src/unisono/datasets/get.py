"""Get a corpus: download, unpack, assemble and record the sets of an entry.

Files that match lock.json are kept, missing ones are made again, changed ones are reported and
left alone. After a kill at any moment, the next call continues.
"""

import shutil
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from unisono import atomic
from unisono.datasets import corpus_directory
from unisono.datasets.assemble import AssemblyStep, Made, Unpacked, assemble, keys_of
from unisono.datasets.entry import Entry, File, Set
from unisono.datasets.fetch import (
    Fetched,
    Received,
    Remote,
    check_given,
    fetch,
    missing,
    not_here,
)
from unisono.datasets.unpack import ArchiveMember, wanted_members
from unisono.decompress import BLOCK_BYTES
from unisono.errors import ConfigError, DataError, suggest
from unisono.units import amount_of_bytes

Progress = Received | AssemblyStep
_WORK = f"{atomic.TEMPORARY}unpack"


@dataclass(frozen=True)
class Got:
    """What is in the directory now; `made` names the sets that this call made."""

    directory: Path
    sets: tuple[Set, ...]
    lock: corpus_directory.Lock
    made: tuple[str, ...]
    own_data_toml: bool

    def text(self, item: Set, language: str) -> corpus_directory.Text:
        """Return what the lock says of one side."""
        return self.lock.texts[f"{item.name}.{language}"]


def get_corpus(
    entry: Entry,
    directory: Path,
    *,
    only: tuple[str, ...] = (),
    given: Path | None = None,
    offline: bool = False,
) -> Generator[Progress, None, Got]:
    """Get the sets of `entry`, or those in `only`, into `directory`; yield progress."""
    chosen = _chosen(entry, only)
    if given is not None:
        check_given(given)
    texts = [f"{item.name}.{lang}" for item in entry.set for lang in entry.languages]
    with corpus_directory.claimed(directory, texts):
        getting = _Getting(entry, directory)
        with corpus_directory.disk_trouble_explained(directory):
            todo = getting.missing(chosen)
        if todo:
            yield from getting.download(todo, given, offline)
            with corpus_directory.disk_trouble_explained(directory):
                yield from getting.make(todo)
        with corpus_directory.disk_trouble_explained(directory):
            return getting.finish(tuple(item.name for item in todo))


def _chosen(entry: Entry, only: tuple[str, ...]) -> tuple[Set, ...]:
    names = [item.name for item in entry.set]
    for name in only:
        if name not in names:
            raise ConfigError(
                f'{entry.name} has no set "{name}"', where="--only", fix=suggest(name, names)
            )
    return tuple(item for item in entry.set if not only or item.name in only)


class _Getting:
    """One call at work in a directory it has locked; `lock` says what is there."""

    def __init__(self, entry: Entry, directory: Path) -> None:
        self.entry, self.directory = entry, directory
        self.downloads = directory / corpus_directory.DOWNLOADS
        self.work = directory / _WORK
        self.lock = corpus_directory.read_lock(directory)
        if self.lock.corpus not in ("", entry.name):
            raise DataError(
                f"{directory} holds the corpus {self.lock.corpus}, not {entry.name}",
                where=str(directory),
                fix="name another directory with --to",
            )
        if found := corpus_directory.changes(entry, self.lock):
            raise DataError(
                "the entry has changed since this directory was made:\n" + "\n".join(found),
                where=str(directory),
                fix="get it into a new directory with --to, or delete this one",
            )
        self.lock = corpus_directory.confirmed(entry, self.lock)
        self.fetched: dict[str, Fetched] = {}

    def missing(self, chosen: Iterable[Set]) -> list[Set]:
        """Return the sets to make; refuse those whose files were changed."""
        for place in (self.directory, self.downloads):
            atomic.clean(place)
        changed, todo = [], []
        for item in chosen:
            states = [self._state(item, language) for language in self.entry.languages]
            changed += [state for state in states if state not in ("", "missing")]
            if "missing" in states:
                todo.append(item)
        if changed:
            raise DataError(
                "files have changed since they were made:\n" + "\n".join(changed),
                where=str(self.directory),
                fix="move them away and try again, or name another directory with --to",
            )
        return todo

    def _state(self, item: Set, language: str) -> str:
        """Return "" if a side is there, "missing", or in words how it differs."""
        name = f"{item.name}.{language}"
        path, text = self.directory / name, self.lock.texts.get(name)
        if text is None:
            return f"{name}: lock.json does not know it" if path.exists() else "missing"
        if not path.exists():
            return "missing"
        wrong = atomic.difference(path, atomic.Written(text.bytes, text.sha256))
        return f"{name}: {wrong}" if wrong else ""

    def download(
        self, todo: list[Set], given: Path | None, offline: bool
    ) -> Generator[Progress, None, None]:
        """Fetch every download that the sets need, and record each at once."""
        names = dict.fromkeys(side.file for item in todo for side in item.sides.values())
        files = [self._pinned(self.entry.file_named(name)) for name in names]
        remotes = [file.remote(self.entry.aliases(file.name)) for file in files]
        absent = missing(remotes, self.downloads, given=given)
        if offline and absent:
            raise self._not_here(todo, absent)
        self._check_room(sum(remote.bytes for remote in absent))
        self._record(finished=False)
        for file, remote in zip(files, remotes, strict=True):
            try:
                fetched = yield from fetch(remote, self.downloads, given=given, offline=offline)
            except DataError as error:
                raise self._explained(error, file) from error
            self.fetched[file.name] = fetched
            self._record_download(file.name, proven=file.checked)

    def _not_here(self, todo: list[Set], absent: tuple[Remote, ...]) -> DataError:
        """Return the error for missing files; it names the sets that do not need them."""
        error = not_here(absent, self.downloads)
        names = {remote.name for remote in absent}
        able = [i.name for i in todo if not names & _files([i])]
        if not able:
            return error
        only = " ".join(f"--only {name}" for name in able)
        fix = f"{error.fix}; the files that are there suffice for {only}"
        return DataError(error.what, where=error.where, fix=fix)

    def _pinned(self, file: File) -> File:
        """Return the download with the hash that its first download had."""
        known = self.lock.downloads.get(file.name)
        if known is None or not known.sha256:
            return file
        return msgspec.structs.replace(file, sha256=known.sha256)

    def _explained(self, error: DataError, file: File) -> DataError:
        """Add to an error that the expected hash is the one of the first download."""
        known = self.lock.downloads.get(file.name)
        if known is None or known.trust == "checked" or not known.sha256:
            return error
        if known.sha256 not in error.what:
            return error
        return DataError(
            f"{error.what}\n  {known.sha256} is the hash of the first download, from lock.json",
            where=error.where,
            fix="the file was replaced at its source or on the way: find out which, and get the"
            " new one into a new directory",
        )

    def _check_room(self, needed: int) -> None:
        free = shutil.disk_usage(self.directory).free
        if needed > free:
            raise DataError(
                f"{amount_of_bytes(needed)} are needed, {amount_of_bytes(free)} are free",
                where=str(self.directory),
                fix="make room, or name a directory on another disk with --to",
            )

    def _record_download(self, name: str, *, proven: bool) -> None:
        """Record a download; until it is proven, only its address."""
        before, fetched = self.lock.downloads.get(name), self.fetched[name]
        trust = "checked" if self.entry.file_named(name).checked else "first use"
        url = fetched.url or (before.url if before else "")
        entry = corpus_directory.Download(name, url, 0, "", "", trust)  # type: ignore[arg-type]
        if proven:
            entry = msgspec.structs.replace(
                entry, bytes=fetched.bytes, sha256=fetched.sha256, md5=fetched.md5
            )
        self.lock = msgspec.structs.replace(
            self.lock, downloads={**self.lock.downloads, name: entry}
        )
        self._record(finished=False)

    def make(self, todo: list[Set]) -> Generator[Progress, None, None]:
        """Unpack one download after the other; make each set as soon as all of it is there."""
        self.work.mkdir()
        try:
            yield from self._make(todo)
        finally:
            shutil.rmtree(self.work, ignore_errors=True)

    def _make(self, todo: list[Set]) -> Generator[Progress, None, None]:
        paths: dict[tuple[str, str], Path] = {}
        waiting = list(todo)
        for name in dict.fromkeys(s.file for item in todo for s in item.sides.values()):
            yield from self._unpack(name, waiting, paths)
            for item in [item for item in waiting if _needs(item) <= paths.keys()]:
                made = yield from assemble(item, self.entry, Unpacked(paths), self.work)
                waiting.remove(item)
                self._put(made, _files([item]) - _files(waiting))
                for key in _needs(item).difference(*map(_needs, waiting)):
                    paths.pop(key).unlink()

    def _unpack(
        self, name: str, sets: list[Set], paths: dict[tuple[str, str], Path]
    ) -> Generator[Progress, None, None]:
        needs = sorted(key for item in sets for key in _needs(item) if key[0] == name)
        archive = self.fetched[name].path
        total = archive.stat().st_size
        wishes = tuple(dict.fromkeys(member for _, member in needs))
        for member, packed in wanted_members(archive, wishes):
            self._check_room(2 * member.size)  # the member, and the text made of it
            path = self.work / f"member-{len(paths)}"
            for _ in _spool(member, path):
                yield AssemblyStep("unpacking", name, min(packed.tell(), total), total)
            paths[name, member.wish] = path

    def _put(self, made: list[Made], used_up: set[str]) -> None:
        """Give the texts of a set their names, once the lock knows what they are.

        A download that is used up has proven to be what the entry describes: only now does
        one without a checksum count as proven.
        """
        for one in made:
            before = self.lock.texts.get(one.text.name)
            if before is not None and before.sha256 != one.text.sha256:
                raise DataError(
                    f"{one.text.name} was made again and now has SHA-256 {one.text.sha256} "
                    f"instead of {before.sha256}",
                    where=str(self.directory),
                    fix="get the corpus into a new directory",
                )
        for name in sorted(used_up):
            self._record_download(name, proven=True)
        texts = {**self.lock.texts, **{one.text.name: one.text for one in made}}
        self.lock = msgspec.structs.replace(self.lock, texts=texts)
        self._record(finished=False)
        for one in made:
            one.path.rename(self.directory / one.text.name)
        atomic.sync(self.directory)

    def finish(self, made: tuple[str, ...]) -> Got:
        """Write data.toml and then lock.json, which marks the directory as complete."""
        there = [
            item
            for item in self.entry.set
            if all(f"{item.name}.{lang}" in self.lock.texts for lang in self.entry.languages)
        ]
        section = corpus_directory.data_section(self.entry, there, self.directory)
        path = self.directory / corpus_directory.DATA_TOML
        before = path.read_bytes() if path.exists() else None
        own = before is not None and before != section.encode()
        own = own and atomic.sha256_of(path) != self.lock.data_toml
        if not own:
            if before != section.encode():
                atomic.write_text(path, section)
            self.lock = msgspec.structs.replace(self.lock, data_toml=atomic.sha256_of(path))
        self._record(finished=True)
        return Got(self.directory, tuple(there), self.lock, made, own)

    def _record(self, *, finished: bool) -> None:
        self.lock = msgspec.structs.replace(self.lock, corpus=self.entry.name)
        corpus_directory.write_lock(self.directory, self.lock, finished=finished)


def _needs(item: Set) -> set[tuple[str, str]]:
    return {key for side in item.sides.values() for key in keys_of(side)}


def _files(items: Iterable[Set]) -> set[str]:
    return {side.file for item in items for side in item.sides.values()}


def _spool(member: ArchiveMember, path: Path) -> Generator[int, None, None]:
    with path.open("wb") as file:
        while data := member.read(BLOCK_BYTES):
            file.write(data)
            yield len(data)
