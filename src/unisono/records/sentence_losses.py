"""The loss of each validation sentence at each evaluation, and translations that repeat words.

With these losses a report compares two evaluations sentence by sentence, which separates a
real difference from chance much earlier than two means do. A file holds -log p of every target
sentence in nats, float32, in the order of the set; `tokens.npy` holds the number of tokens of
each, its end included.
"""

import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unisono import atomic
from unisono.records.layout import RunDirectory, make_place
from unisono.small_files import read_bytes

Losses = NDArray[np.float32]
Tokens = NDArray[np.int32]

# Version 1.0 of numpy's format: two bytes of length, then a dictionary and a line feed.
_HEADER = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '(?P<type>[^']*)', 'fortran_order': False, "
    rb"'shape': \((?P<count>[0-9]{1,12}),\), \} *\n",
    re.DOTALL,
)
CLOSE = 1e-4  # float32 and the order of a sum make less of a difference


@dataclass(frozen=True, eq=False)
class SentenceLosses:
    """The number of tokens of each sentence, and its loss after some steps."""

    tokens: Tokens = field(default_factory=lambda: np.empty(0, np.int32))
    at_step: Mapping[int, Losses] = field(default_factory=dict)


def write_losses(run: Path, step: int, losses: Sequence[float], tokens: Tokens) -> None:
    """Write the losses of the evaluation after `step`, and the tokens if they are not there."""
    directory = RunDirectory(run)
    make_place(directory.losses)
    counts = tokens.astype(np.int32)
    known = _read(directory.loss_tokens, np.int32)
    if known is None or not np.array_equal(known, counts):
        atomic.write_bytes(directory.loss_tokens, _bytes(counts))
    atomic.write_bytes(directory.sentence_losses(step), _bytes(np.asarray(losses, np.float32)))


def read_losses(run: Path, mean_at_step: Mapping[int, float]) -> SentenceLosses:
    """Read the losses of those steps whose mean per token is as given.

    It skips files that are missing, damaged, or of weights that the run has discarded.
    """
    directory = RunDirectory(run)
    tokens = _read(directory.loss_tokens, np.int32)
    if tokens is None or len(tokens) == 0 or tokens.min() < 1:
        return SentenceLosses()
    total, found = int(tokens.sum(dtype=np.int64)), {}
    for step, mean in mean_at_step.items():
        losses = _read(directory.sentence_losses(step), np.float32)
        if losses is None or len(losses) != len(tokens):
            continue
        if abs(float(losses.sum(dtype=np.float64)) / total - mean) <= CLOSE * abs(mean):
            found[step] = losses
    return SentenceLosses(tokens, found)


def _bytes(array: NDArray[Any]) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()


def _read(path: Path, kind: type[np.generic]) -> NDArray[Any] | None:
    """Return the array in a file that `_bytes` made, or None if the file is something else.

    numpy's own reader evaluates the header and raises errors of any kind if it is damaged.
    """
    try:
        data = read_bytes(path)
    except OSError:
        return None
    header, dtype = _HEADER.match(data), np.dtype(kind).newbyteorder("<")
    if header is None or header["type"] != dtype.str.encode():
        return None
    if len(data) - header.end() != int(header["count"]) * dtype.itemsize:
        return None
    return np.frombuffer(data, dtype, offset=header.end())


TIMES, MOST_WORDS = 4, 4


def repeats_itself(text: str) -> bool:
    """Return whether up to four words stand four times in a row in `text`."""
    words = text.lower().split()
    return any(_recurs(words, size) for size in range(1, MOST_WORDS + 1))


def _recurs(words: list[str], size: int) -> bool:
    """Return whether `size` words are followed by themselves so many times."""
    like_before = 0
    for word, before in zip(words[size:], words, strict=False):
        like_before = like_before + 1 if word == before else 0
        if like_before == size * (TIMES - 1):
            return True
    return False


def count_repeating(translations: Iterable[str], references: Iterable[str]) -> int:
    """Return how many translations repeat themselves where the reference does not."""
    pairs = zip(translations, references, strict=True)
    return sum(repeats_itself(t) and not repeats_itself(r) for t, r in pairs)
