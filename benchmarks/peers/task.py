"""What every trainer is asked to do: the same model, the same recipe, the same updates."""

from dataclasses import dataclass
from pathlib import Path

from unisono.models.settings import PRESETS, TransformerSettings, training_flops

TOKENS_PER_UPDATE = 4096
PEAK_RATE, WARMUP_UPDATES = 1e-3, 400
BETA1, BETA2, EPSILON = 0.9, 0.98, 1e-9
DROPOUT, LABEL_SMOOTHING = 0.1, 0.1
LONGEST = 200
THREADS = 2
SEED = 1
BEAM = 5
SENTENCES_AT_ONCE = 64  # when translating
SPECIAL = 4  # padding, unknown, begin and end: the first four of our ids


@dataclass(frozen=True)
class Size:
    """A model, and what is asked of us when it is trained: ratios and shares."""

    name: str
    model: TransformerSettings
    over_fairseq: float
    over_others: float
    of_gemm: float
    memory_of_fairseq: float = 0.7
    half_over_fp32: float = 1.75
    half_over_fairseq: float = 2.6


SIZES = {
    "small": Size("small", TransformerSettings(**PRESETS["small"]), 1.4, 1.6, 0.70),
    "base": Size("base", TransformerSettings(**PRESETS["base"]), 1.15, 1.25, 0.72),
}


@dataclass(frozen=True)
class Texts:
    """The text as pieces, one sentence a line, a space between pieces; and what they are.

    `train`, `valid` and `test` are stems: the files end in .en and .de. `pieces` has one
    piece a line in the order of our ids, the four special ones first. `mean_source` and
    `mean_target` count the pieces of a training sentence and its end.
    """

    directory: Path
    corpus: Path
    vocabulary: int
    pairs: int
    mean_source: float
    mean_target: float

    def stem(self, split: str) -> Path:
        """Return the path of a split without its ending."""
        return self.directory / split

    def plain_pieces(self) -> list[str]:
        """Return the pieces without the special ones, in the order of their ids."""
        return self.pieces.read_text("utf-8").split("\n")[SPECIAL:-1]

    @property
    def pieces(self) -> Path:
        """Return the list of pieces."""
        return self.directory / "pieces.txt"


@dataclass(frozen=True)
class Job:
    """One start of one trainer: what to train on what, and where its files go.

    Every `validate_every` updates the validation loss is wanted, every `save_every` updates
    the weights; 0 is never. `seconds` is when a trainer that can should end by itself.
    An update has `tokens` of the target, and the rate rises for `warmup` updates.
    """

    size: Size
    texts: Texts
    directory: Path
    validate_every: int = 0
    save_every: int = 0
    seconds: float = 0
    tokens: int = TOKENS_PER_UPDATE
    warmup: int = WARMUP_UPDATES

    @property
    def sentences(self) -> int:
        """Return how many sentences have about the target tokens of an update."""
        return round(self.tokens / self.texts.mean_target)


def gflop(size: Size, vocabulary: int, sentences: float, source: float, target: float) -> float:
    """Return what `sentences` cost of altogether `source` and `target` tokens, 10⁹ operations.

    The same formula for everyone, over real tokens: work spent on padding does not count.
    """
    if not sentences:
        return 0.0
    lengths = source / sentences, target / sentences
    return training_flops(size.model, vocabulary, round(sentences), *lengths) / 1e9
