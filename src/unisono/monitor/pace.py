"""How often to look. Pure."""

HOUR, DAY = 3600.0, 86400.0
# After an hour the course of a run is known, and after a day even more so.
SELDOM, RARELY = 5.0, 30.0
# A file that is as large as this is full: about three months of a machine with 64 cores.
MOST_BYTES = 256 * 2**20


def pause(every: float, elapsed: float) -> float:
    """Return the seconds between looks, `elapsed` seconds after the first."""
    if elapsed < HOUR:
        return every
    return every * (SELDOM if elapsed < DAY else RARELY)


def next_look(last: float, every: float, began: float, now: float) -> float:
    """Return when to look again after a look at `last`; one that is late is not made up for."""
    step = pause(every, last - began)
    return max(last + step, now)
