"""Which tags of which trainers mean what. A new trainer is an entry below."""

import math
from collections.abc import Collection
from dataclasses import dataclass

BITS = math.log(2)  # nats


@dataclass(frozen=True)
class Tags:
    """The tags of a trainer, by what they tell; of several, the first that is there counts.

    Tags have the directory in front in which they were found, if there is more than one. Losses
    are multiplied by `loss_unit` to be nats. `proof` are tags of which one must be there.
    """

    trainer: str
    proof: tuple[str, ...]
    loss: tuple[str, ...]
    valid_loss: tuple[str, ...]
    learning_rate: tuple[str, ...] = ()
    gradient_norm: tuple[str, ...] = ()
    bleu: tuple[str, ...] = ()
    valid_seconds: tuple[str, ...] = ()
    seconds: tuple[str, ...] = ()
    tokens_per_second: tuple[str, ...] = ()
    epoch: tuple[str, ...] = ()
    loss_unit: float = 1.0
    note: str = ""

    @property
    def known(self) -> frozenset[str]:
        """Return all tags that are read."""
        groups = (self.loss, self.valid_loss, self.learning_rate, self.gradient_norm, self.bleu)
        more = (self.valid_seconds, self.seconds, self.tokens_per_second, self.epoch)
        return frozenset(tag for group in (*groups, *more) for tag in group)

    def fit(self, found: Collection[str]) -> bool:
        """Return whether these are the tags that were found."""
        return any(tag in found for tag in self.proof)


UNISONO = Tags(
    trainer="Unisono",
    proof=("train/seconds_per_step",),
    loss=("train/loss",),
    valid_loss=("eval/loss",),
    learning_rate=("train/learning_rate",),
    gradient_norm=("train/gradient_norm",),
    bleu=("eval/bleu",),
    valid_seconds=("eval/seconds",),
    seconds=("train/seconds_per_step",),
    tokens_per_second=("train/target_tokens_per_second",),
    epoch=("train/epoch",),
)
HUGGING_FACE = Tags(
    trainer="Hugging Face",
    proof=("train/loss", "eval/loss"),
    loss=("train/loss",),
    valid_loss=("eval/loss",),
    learning_rate=("train/learning_rate",),
    gradient_norm=("train/grad_norm",),
    bleu=("eval/bleu",),
    valid_seconds=("eval/runtime",),
    note="these tags are Hugging Face's, but not its alone; losses are means over batches",
)
FAIRSEQ = Tags(
    trainer="fairseq",
    proof=("train_inner/loss", "valid/nll_loss", "train/nll_loss", "train/ups", "train/gnorm"),
    loss=("train_inner/nll_loss", "train/nll_loss", "train_inner/loss", "train/loss"),
    valid_loss=("valid/nll_loss", "valid/loss"),
    learning_rate=("train_inner/lr", "train/lr"),
    gradient_norm=("train_inner/gnorm", "train/gnorm"),
    bleu=("valid/bleu",),
    tokens_per_second=("train_inner/wps", "train/wps"),
    loss_unit=BITS,
    note="fairseq writes losses in bits: they were turned into nats",
)
OPENNMT = Tags(
    trainer="OpenNMT-py or Eole",
    proof=("progress/xent", "progress/ppl", "valid/xent"),
    loss=("progress/xent",),
    valid_loss=("valid/xent",),
    learning_rate=("progress/lr",),
    bleu=("valid/BLEU", "valid/bleu"),
    tokens_per_second=("progress/tgtper",),
)

TRAINERS = (UNISONO, FAIRSEQ, OPENNMT, HUGGING_FACE)
# fairseq has a directory for what stands before the slash.
READ = frozenset(tag for tags in TRAINERS for tag in tags.known)
READ |= {tag.rpartition("/")[2] for tag in FAIRSEQ.known}
