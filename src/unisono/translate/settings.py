"""The settings of the beam search. No torch here."""

from typing import Annotated

import msgspec


class Decoding(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Keep the `beam` best prefixes; a beam of 1 is greedy.

    A score is the sum of log-probabilities over ((5 + length) / 6) ** length_penalty.
    A translation has at most max_ratio * source + max_extra pieces.
    """

    beam: Annotated[int, msgspec.Meta(ge=1)] = 5
    length_penalty: Annotated[float, msgspec.Meta(ge=0)] = 0.6
    max_ratio: Annotated[float, msgspec.Meta(gt=0)] = 2.0
    max_extra: Annotated[int, msgspec.Meta(ge=0)] = 20
