"""This Unisono as a machine gets it: its files as they are installed here, in one archive."""

import hashlib
import io
import os
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path

import unisono
from unisono.errors import RunError
from unisono.launch.bring.room import on_disk
from unisono.launch.bring.trees import tree_hash

_EPOCH = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class CodeArchive:
    """The code: the name of its directory, the hash of its files, and the archive of them.

    `unpacked_bytes` is what its files take on a disk.
    """

    name: str
    tree: str
    data: bytes
    unpacked_bytes: int

    @property
    def sha256(self) -> str:
        """Return the hash of the archive."""
        return hashlib.sha256(self.data).hexdigest()


def this_unisono() -> CodeArchive:
    """Return the installed package; the same files give the same bytes."""
    contents = {f"unisono/{name}": data for name, data in files_below(_home())}
    folder = f"unisono-{unisono.__version__}.dist-info"
    contents[f"{folder}/METADATA"] = _metadata()
    contents[f"{folder}/RECORD"] = b""
    files = [
        (name, len(data), hashlib.sha256(data).hexdigest()) for name, data in contents.items()
    ]
    whole = tree_hash(files)
    size = on_disk(map(len, contents.values()))
    return CodeArchive(f"code-{whole[:16]}", whole, zipped(contents), size)


def this_pip() -> bytes:
    """Return pip as a program in one file: `python pip.zip install …`."""
    found = find_spec("pip")
    if found is None or not found.origin:
        raise RunError(
            "there is no pip here to bring",
            where="--sync",
            fix="install it: python -m ensurepip",
        )
    contents = {f"pip/{name}": data for name, data in files_below(Path(found.origin).parent)}
    contents["__main__.py"] = (
        b"import sys\nfrom pip._internal.cli.main import main\nsys.exit(main())\n"
    )
    return zipped(contents)


def zipped(contents: dict[str, bytes]) -> bytes:
    """Return an archive of files that depends on nothing but their names and contents."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(contents):
            archive.writestr(
                zipfile.ZipInfo(name, _EPOCH), contents[name], zipfile.ZIP_DEFLATED
            )
    return buffer.getvalue()


def files_below(directory: Path) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of all files below a directory but what Python compiles."""
    for place, below, names in os.walk(directory, followlinks=True):
        below[:] = sorted(name for name in below if name != "__pycache__")
        for name in sorted(names):
            path = Path(place, name)
            if path.suffix != ".pyc":
                yield path.relative_to(directory).as_posix(), path.read_bytes()


def _home() -> Path:
    return Path(unisono.__file__).parent


def _metadata() -> bytes:
    try:
        text = distribution("unisono").read_text("METADATA")
    except PackageNotFoundError:
        text = None
    usual = f"Metadata-Version: 2.1\nName: unisono\nVersion: {unisono.__version__}\n"
    return (text or usual).encode()
