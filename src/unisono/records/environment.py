"""What a run ran on: versions, machine, interfaces, commit and command line.

Only what is named here is recorded. Environment variables are not: they hold secrets.
"""

import os
import platform
import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil

PACKAGES = ("unisono", "torch", "numpy", "sentencepiece", "sacrebleu", "safetensors", "msgspec")
_SECRET = re.compile(r"(?i)(token|key|secret|password|passwd)=\S+")
_USER_IN_URL = re.compile(r"(?<=://)[^/@\s]+@")


def describe_environment(devices: list[str]) -> dict[str, Any]:
    """Return a description of this machine and this command, safe to publish."""
    return {
        "host": platform.node(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in PACKAGES},
        "commit": _commit(),
        "command": [redact(argument) for argument in sys.argv],
        "cores": len(os.sched_getaffinity(0)),
        "processor": _processor(),
        "memory_bytes": psutil.virtual_memory().total,
        "devices": devices,
        "interfaces": {
            name: {"up": stats.isup, "mbit_per_s": stats.speed}
            for name, stats in psutil.net_if_stats().items()
        },
    }


def redact(text: str) -> str:
    """Return `text` without passwords, tokens and keys."""
    return _USER_IN_URL.sub("[redacted]@", _SECRET.sub(r"\1=[redacted]", text))


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _commit() -> str:
    """Return the commit of the source Unisono runs from, or "" if it is installed."""
    here = Path(__file__).parent
    command = ["git", "-C", str(here), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _processor() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
