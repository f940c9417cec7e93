"""Is the entry still the one a directory was made by?"""

from collections.abc import Iterator

import msgspec

from unisono.datasets.assemble import recipe_of
from unisono.datasets.entry import Entry, File, Set
from unisono.datasets.lock_file import Download, Lock, Text


def changes(entry: Entry, lock: Lock) -> list[str]:
    """Return in words what `entry` says otherwise than `lock`; addresses may differ."""
    return [*_of_downloads(entry, lock), *_of_texts(entry, lock)]


def confirmed(entry: Entry, lock: Lock) -> Lock:
    """Return the lock with those downloads as checked whose checksum the entry names by now."""
    named = {file.name for file in entry.file if file.checked}
    downloads = {
        name: msgspec.structs.replace(known, trust="checked")
        if name in named and known.sha256
        else known
        for name, known in lock.downloads.items()
    }
    return msgspec.structs.replace(lock, downloads=downloads)


def _of_downloads(entry: Entry, lock: Lock) -> Iterator[str]:
    for file in entry.file:
        known = lock.downloads.get(file.name)
        if known is not None and known.sha256:
            yield from _of_download(file, known)


def _of_download(file: File, known: Download) -> Iterator[str]:
    if file.bytes not in (0, known.bytes):
        yield f"{file.name} with {file.bytes:,} bytes, before {known.bytes:,}"
    if file.sha256 not in ("", known.sha256):
        yield f"{file.name} with SHA-256 {file.sha256}, before {known.sha256}"
    if file.md5 not in ("", known.md5):
        yield f"{file.name} with MD5 {file.md5}, before {known.md5}"


def _of_texts(entry: Entry, lock: Lock) -> Iterator[str]:
    sets = {item.name: item for item in entry.set}
    for text in lock.texts.values():
        item = sets.get(text.set)
        if item is None or text.language not in item.sides:
            yield f"{text.name} is not in the entry any more"
        else:
            yield from _of_text(item, text)


def _of_text(item: Set, text: Text) -> Iterator[str]:
    side = item.sides[text.language]
    pairs = item.pairs or text.lines
    found: dict[str, tuple[object, object]] = {
        "role": (item.role, text.role),
        "pairs": (f"{pairs:,}", f"{text.lines:,}"),
        "file": (side.file, text.download),
        "members": (", ".join(side.members), ", ".join(text.members)),
        "format": (recipe_of(item, side), text.recipe),
    }
    for what, (now, before) in found.items():
        if now != before:
            yield f"{text.name}: {what} {now or 'none'}, before {before or 'none'}"
