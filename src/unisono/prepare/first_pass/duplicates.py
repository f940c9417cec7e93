"""Finding the pairs that came before, by their hashes alone: eight bytes a pair."""

import numpy as np
from numpy.typing import NDArray

# Sorting a part of the hashes at a time needs less memory than all at once.
_PARTS = 16


def first_occurrences(hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Say of each hash whether it is there for the first time."""
    first = np.zeros(len(hashes), np.bool_)
    for part in range(_PARTS):
        places = np.flatnonzero(hashes % np.uint64(_PARTS) == part)
        _, indices = np.unique(hashes[places], return_index=True)
        first[places[indices]] = True
    return first
