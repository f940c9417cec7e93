"""Read the history of a long run quickly: all that is rare, and some of the updates.

Only what is wanted is decoded, so a history takes hardly longer than its bytes take to read.
"""

from collections.abc import Iterable, Iterator

UPDATE = b'{"kind":"step"'
NUMBER = b',"step":'
LINE_BYTES = 400  # of an update or a sample, about
SKIMMED = 2048  # updates or samples of a file that are wanted, about


def stride_of(size: int) -> int:
    """Return how many updates each wanted one stands for in a file of so many bytes.

    It is a power of two, so what is wanted of one file of a run is wanted of all others.
    """
    return 1 << max(0, (size // (LINE_BYTES * SKIMMED)).bit_length() - 1)


def some_updates(lines: Iterable[bytes], stride: int) -> Iterator[bytes]:
    """Yield the lines of every `stride`th update, and all lines that hold something else.

    The updates before and after something else are wanted, too: they say when it was.
    """
    before, is_near = b"", True
    for line in lines:
        if not line.startswith(UPDATE):
            if before:
                yield before
            yield line
            before, is_near = b"", True
        elif is_near or _step_of(line) % stride == 0:
            yield line
            before, is_near = b"", False
        else:
            before = line
    if before:
        yield before


def some_samples(lines: Iterable[bytes], stride: int) -> Iterator[bytes]:
    """Yield every `stride`th line, and the first of all starts of the sampler."""
    for number, line in enumerate(lines):
        if number % stride == 0 or not line.startswith(b'{"kind":"sampled"'):
            yield line


def _step_of(line: bytes) -> int:
    place = line.find(NUMBER, len(UPDATE)) + len(NUMBER)
    try:
        return int(line[place : line.find(b",", place)])
    except ValueError:
        return 0  # damaged: whoever decodes it says so
