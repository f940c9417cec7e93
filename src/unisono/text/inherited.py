"""The pieces of a model that is there already, for text that it is to read."""

from dataclasses import dataclass

from unisono.text.normalise import Normalisation
from unisono.text.tokenizer import Tokenizers

LIKE = "like"  # how a corpus records that it has inherited its pieces


@dataclass(frozen=True)
class InheritedPieces:
    """Tokenizers of the model at `origin`, and how its text was normalised."""

    origin: str
    tokenizers: Tokenizers
    normalisation: Normalisation
