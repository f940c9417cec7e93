"""Which pairs are too long or too lopsided, counted in pieces."""

import numpy as np
from numpy.typing import NDArray

from unisono.config.settings import CorpusSettings
from unisono.prepare.reasons import LENGTH_RATIO, TOO_LONG


class LengthFilter:
    """Judge pairs by the number of their pieces."""

    def __init__(self, settings: CorpusSettings) -> None:
        self._max_pieces = settings.max_pieces
        self._max_ratio = settings.max_length_ratio

    def reason(self, source_pieces: int, target_pieces: int) -> str:
        """Return why to drop the pair, or "" to keep it."""
        longer, shorter = max(source_pieces, target_pieces), min(source_pieces, target_pieces)
        if longer > self._max_pieces:
            return TOO_LONG
        return LENGTH_RATIO if longer > self._max_ratio * shorter else ""

    def kept(
        self, source_pieces: NDArray[np.int64], target_pieces: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Say of each pair whether it is kept: `reason` for many at once."""
        longer = np.maximum(source_pieces, target_pieces)
        shorter = np.minimum(source_pieces, target_pieces)
        kept: NDArray[np.bool_] = longer <= self._max_pieces
        return kept & (longer <= self._max_ratio * shorter)
