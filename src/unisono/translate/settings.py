"""The settings of the search and of sampling. No torch here."""

from typing import Annotated, Literal

import msgspec


class Decoding(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Keep the `beam` best prefixes; a beam of 1 is greedy.

    A score is the sum of log-probabilities over ((5 + length) / 6) ** length_penalty, or with
    the form "power", which is that of transformers, over (length + 1) ** length_penalty.
    A translation has at most max_ratio * source + max_extra pieces.
    """

    beam: Annotated[int, msgspec.Meta(ge=1)] = 5
    length_penalty: Annotated[float, msgspec.Meta(ge=0, le=100)] = 0.6
    length_penalty_form: Literal["gnmt", "power"] = "gnmt"
    max_ratio: Annotated[float, msgspec.Meta(gt=0, le=10_000)] = 2.0
    max_extra: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] = 20


class PieceSampling(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Draw translations in place of searching for the best.

    Each next piece is drawn from the model's distribution, sharpened by a `temperature` below
    1 and flattened by one above; `top_k` keeps the most likely pieces alone (0: all), `top_p`
    the fewest whose probabilities sum to at least that much. The `seed` decides what is drawn,
    together with the place of the line in the text.
    """

    temperature: Annotated[float, msgspec.Meta(gt=0)] = 1.0
    top_k: Annotated[int, msgspec.Meta(ge=0)] = 0
    top_p: Annotated[float, msgspec.Meta(gt=0, le=1)] = 1.0
    seed: int = 1
