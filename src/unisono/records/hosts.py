"""The machines of a run, which may be called the same."""

from collections import Counter
from collections.abc import Iterable

import msgspec

from unisono.records.events import Started


def latest_starts(starts: Iterable[Started]) -> tuple[Started, ...]:
    """Return each rank's latest start, in order of rank, as far as the last world goes."""
    latest = {start.rank: start for start in starts}
    size = latest[0].size if 0 in latest else len(latest)
    return tuple(latest[rank] for rank in sorted(latest) if rank < size)


def shared_names(starts: Iterable[Started]) -> set[str]:
    """Return the names that several machines have: one has each local rank once."""
    places = Counter((start.host, start.local_rank) for start in latest_starts(starts))
    return {host for (host, _), times in places.items() if times > 1}


def told_apart(starts: Iterable[Started]) -> tuple[Started, ...]:
    """Return the starts; machines that are called the same are known by their address, too."""
    starts = tuple(starts)
    shared = shared_names(starts)
    return tuple(
        msgspec.structs.replace(start, host=f"{start.host} ({start.address})")
        if start.host in shared and start.address
        else start
        for start in starts
    )
