"""What `unisono corpora list NAME` shows: the sets and downloads of one corpus."""

from collections.abc import Iterator

from unisono.datasets.entry import Entry, File
from unisono.units import amount_of_bytes


def entry_page(entry: Entry) -> str:
    """Return all that is known of a corpus before it is got."""
    lines = [f"{entry.name}: {entry.description}, {'→'.join(entry.languages)}", "", "sets"]
    width = max(len(item.name) for item in entry.set)
    for item in entry.set:
        pairs = f"{item.pairs:,}" if item.pairs else "?"
        note = f"  {item.note}" if item.note else ""
        lines.append(f"  {item.role:5}  {item.name:{width}}  {pairs:>9} pairs{note}")
    lines += ["", f"downloads: {size_of(entry) if entry.file else 'none'}"]
    lines += [line for file in entry.file for line in _download(file)]
    lines += ["", *entry.notes] if entry.notes else []
    lines += ["", f"licence: {entry.licence}"] if entry.licence else []
    return "\n".join(lines)


def size_of(entry: Entry) -> str:
    """Return the size of all downloads; + if some are not known, ? if none is."""
    known = sum(file.bytes for file in entry.file)
    more = "" if entry.download_bytes else " +"
    return f"{amount_of_bytes(known)}{more}" if known else "?"


def _download(file: File) -> Iterator[str]:
    size = amount_of_bytes(file.bytes) if file.bytes else "size not known"
    checksum = "SHA-256" if file.sha256 else "MD5" if file.md5 else "no checksum"
    yield f"  {file.name}  {size}, {checksum}"
    yield from (f"    {url}" for url in file.urls)
