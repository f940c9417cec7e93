"""The first program on a machine that has nothing: it takes Unisono and becomes its server.

The launcher sends this file as an argument of `python -I -c`, so it needs nothing but Python's
own library. A line of JSON comes in, a line of JSON goes out; if the machine lacks this code,
its archive follows, checked by its hash. An older Python must read this file, too.
"""

import errno
import hashlib
import io
import json
import os
import platform
import shutil
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

OLDEST_PYTHON = (3, 11)
LONGEST_GREETING = 65536
BROUGHT, UNFINISHED = "brought", "unfinished"  # listings of what came; what is not whole yet


def main() -> None:
    """Answer the launcher; unless it only looks, go on as the server."""
    wanted = json.loads(_take_line())
    if sys.version_info < OLDEST_PYTHON:
        found = platform.python_version()
        fix = "install Python 3.11 there, or name another one with --python"
        _refuse(wanted, "its Python is " + found + ", which is too old for Unisono", fix)
        return
    base = Path(wanted["directory"]).expanduser().resolve()
    try:
        has = _has(base, wanted["code"], wanted["tree"])
        _say(_state(wanted, base, has=has))
        if wanted["look"]:
            return
        if not has:
            _unpack(base, wanted)
    except (OSError, ValueError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or str(error)
        full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
        fix = "make room there" if full else "look at it there"
        _refuse(
            wanted,
            f"Unisono cannot be written: {reason}",
            fix + ", or choose another directory with --directory",
            str(base),
        )
        return
    variables = {**os.environ, "PYTHONPATH": str(base / wanted["code"])}
    variables["PYTHONDONTWRITEBYTECODE"] = "1"
    words = [sys.executable, "-P", "-s", "-m", "unisono.launch.bring.server", str(base)]
    os.execve(sys.executable, [*words, wanted["token"]], variables)


def _state(wanted: "dict[str, Any]", base: Path, *, has: bool) -> "dict[str, Any]":
    existing = next(path for path in (base, *base.parents) if path.is_dir())
    listings = (base / BROUGHT).glob("*.json")
    return {
        "token": wanted["token"],
        "has": has,
        "base": str(base),
        "python": ".".join(platform.python_version_tuple()[:2]),
        "machine": platform.machine(),
        "libc": platform.libc_ver()[1],
        "free": shutil.disk_usage(existing).free,
        "gpu": Path("/proc/driver/nvidia/version").exists(),
        "time": time.time(),
        "trees": sorted(path.stem for path in listings),
    }


def _has(base: Path, code: str, tree: str) -> bool:
    """Return whether the code is there, and as it came."""
    try:
        files = json.loads((base / BROUGHT / (code + ".json")).read_text("utf-8"))["files"]
        total = hashlib.sha256()
        for name in sorted(files):
            digest = hashlib.sha256((base / code / name).read_bytes()).hexdigest()
            total.update(f"{name}\0{digest}\n".encode())
    except (OSError, ValueError, KeyError):
        return False
    return total.hexdigest() == tree


def _unpack(base: Path, wanted: "dict[str, Any]") -> None:
    """Take the archive of the code, and write its files; leave none of them if one fails."""
    data = _take(wanted["length"])
    if hashlib.sha256(data).hexdigest() != wanted["sha256"]:
        raise ValueError("the archive did not arrive as it was sent")
    unfinished, listing = base / UNFINISHED, base / BROUGHT / (wanted["code"] + ".json")
    is_new = not listing.exists()
    for directory in (base, unfinished, listing.parent):
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    archive = zipfile.ZipFile(io.BytesIO(data))
    contents = {name: archive.read(name) for name in archive.namelist()}
    listed = {
        name: [len(content), hashlib.sha256(content).hexdigest()]
        for name, content in contents.items()
    }
    try:
        _write(listing, json.dumps({"files": listed}).encode(), unfinished)
        for name, content in contents.items():
            _write(base / wanted["code"] / name, content, unfinished)
    except OSError:
        if is_new:
            for name in contents:
                (base / wanted["code"] / name).unlink(missing_ok=True)
            listing.unlink(missing_ok=True)
        raise


def _write(path: Path, content: bytes, unfinished: Path) -> None:
    """Write a file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = unfinished / f"code-{os.getpid()}"
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _refuse(wanted: "dict[str, Any]", what: str, fix: str, where: str = "") -> None:
    _say({"token": wanted["token"], "refused": {"what": what, "where": where, "fix": fix}})


def _say(message: "dict[str, Any]") -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def _take_line() -> bytes:
    """Read a line byte by byte: what follows it is for others."""
    line = b""
    while not line.endswith(b"\n") and len(line) < LONGEST_GREETING:
        byte = os.read(0, 1)
        if not byte:
            break
        line += byte
    return line


def _take(length: int) -> bytes:
    data = bytearray()
    while len(data) < length:
        part = os.read(0, min(length - len(data), 1 << 20))
        if not part:
            raise ValueError("the connection ended in the middle")
        data += part
    return bytes(data)


if __name__ == "__main__":
    main()
