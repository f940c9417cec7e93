"""Write the hashes of every wheel that may be installed into the lock files.

Usage: `make lock`, after changing a `name==version` there. Names, versions and comments stay;
the hashes come from PyPI's index: of all wheels for Linux on x86-64 and ARM and the Pythons
below. A hash of another index's file, which stands behind `# elsewhere`, stays too.
"""

import re
import sys
import urllib.request
from html import unescape
from pathlib import Path

INDEX = "https://pypi.org/simple"
PYTHONS = ("cp311", "cp312", "cp313")
PIN = re.compile(r"([A-Za-z0-9._-]+)==([^\s\\]+)")
LINK = re.compile(r'<a href="[^"]*#sha256=([0-9a-f]{64})"[^>]*>([^<]+)</a>')
ELSEWHERE = re.compile(r"^# elsewhere: (\S+) sha256:([0-9a-f]{64})$")


def fits(wheel: str) -> bool:
    """Say whether a wheel runs on a Python and a machine that we support."""
    python, abi, platform = wheel.removesuffix(".whl").split("-")[-3:]
    is_abi3 = "abi3" in abi and int(python.split(".")[0].removeprefix("cp3")) <= 11
    runs = is_abi3 or any(tag == "py3" or tag in PYTHONS for tag in python.split("."))
    is_free_threaded = abi.endswith("t") and abi != "abi3t"
    linux = platform == "any" or re.search(r"linux.*_(x86_64|aarch64)$", platform)
    return bool(runs and linux and not is_free_threaded and "musl" not in platform)


def hashes_of(name: str, version: str) -> dict[str, str]:
    """Return the SHA-256 of each wheel of this version that fits, by its file's name."""
    folder = re.sub(r"[-_.]+", "-", name).lower()
    with urllib.request.urlopen(f"{INDEX}/{folder}/", timeout=60) as answer:
        links = LINK.findall(answer.read().decode())
    found = {unescape(file).strip(): digest for digest, file in links if file.endswith(".whl")}
    return {
        file: digest
        for file, digest in found.items()
        if file.split("-")[1] == version and fits(file)
    }


def locked(text: str) -> str:
    """Return a lock file with the hashes as PyPI states them today."""
    lines: list[str] = []
    elsewhere: list[str] = []
    for line in text.splitlines():
        if given := ELSEWHERE.match(line):
            elsewhere.append(given[2])
        if line.startswith("#") or not line.strip():
            lines.append(line)
        if not (pin := PIN.match(line)):
            continue
        digests = sorted({*hashes_of(pin[1], pin[2]).values(), *elsewhere})
        if not digests:
            sys.exit(f"error: {pin[0]} has no wheel that fits at {INDEX}")
        lines.append(" \\\n".join([pin[0], *(f"    --hash=sha256:{d}" for d in digests)]))
        elsewhere = []
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    for path in map(Path, sys.argv[1:]):
        path.write_text(locked(path.read_text()))
