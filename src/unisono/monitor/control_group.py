"""Limits that a container puts on its processes: Linux control groups, version 2."""

from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
MICROSECONDS = 1e-6


@dataclass(frozen=True)
class Limits:
    """What a control group allows and has taken; 0 is no limit, or not known."""

    memory: int = 0
    memory_used: int = 0
    held_back: float = 0.0


class ControlGroup:
    """The control group of this process, and those above it as far as they are to be seen."""

    def __init__(self, root: Path = ROOT, membership: Path = Path("/proc/self/cgroup")) -> None:
        own = root / _own_path(membership).lstrip("/")
        places = [own, *own.parents]
        self._places = [p for p in places if p == root or root in p.parents]

    def look(self) -> Limits:
        """Return the tightest limit on memory, what is used of it, and waits for a quota."""
        held_back = max((_held_back(place) for place in self._places), default=0.0)
        memory = [(limit, place) for place in self._places if (limit := _memory_limit(place))]
        if not memory:
            return Limits(held_back=held_back)
        limit, place = min(memory, key=lambda pair: pair[0])
        return Limits(limit, _memory_used(place), held_back)


def _own_path(membership: Path) -> str:
    lines = _read(membership).splitlines()
    return next((line[3:] for line in lines if line.startswith("0::")), "/")


def _memory_limit(place: Path) -> int:
    text = _read(place / "memory.max").strip()
    return int(text) if text.isdecimal() else 0


def _memory_used(place: Path) -> int:
    """Return what the group holds, without files that could be forgotten at once."""
    text = _read(place / "memory.current").strip()
    cached = _table(place / "memory.stat").get("inactive_file", 0)
    return max(0, int(text) - cached) if text.isdecimal() else 0


def _held_back(place: Path) -> float:
    return _table(place / "cpu.stat").get("throttled_usec", 0) * MICROSECONDS


def _table(path: Path) -> dict[str, int]:
    rows = (line.split() for line in _read(path).splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdecimal()}


def _read(path: Path) -> str:
    try:
        return path.read_text("ascii", errors="replace")
    except OSError:
        return ""
