"""The settings of [batching]: how large an update is, and what goes into it. No torch here."""

from typing import Annotated, Literal

import msgspec

Tokens = Annotated[int, msgspec.Meta(ge=1)]

AUTO_TOKENS = "auto"  # how a config asks for micro-batches that suit the devices; 0 in here
TOKENS_ON_CPU = 4096


class Budget(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many tokens make up an update, and how many go through the model at once.

    Both count positions of the longer side including padding. The number of processes
    does not matter: they divide the micro-batches of an update among themselves.
    """

    tokens_per_update: Tokens = 32768
    tokens_per_micro_batch: Tokens = TOKENS_ON_CPU

    @property
    def micro_batches_per_update(self) -> int:
        """Return how many micro-batches make up an update."""
        return max(1, round(self.tokens_per_update / self.tokens_per_micro_batch))


class Batching(Budget, frozen=True, forbid_unknown_fields=True):
    """The budget, how the sources are mixed, and how often BPE-dropout drops a merge.

    A `temperature` above 1 uses small sources more often and large ones less. Until the start
    of a run chooses them by the memory of its GPUs, `tokens_per_micro_batch` may be 0.
    """

    tokens_per_micro_batch: Annotated[int, msgspec.Meta(ge=0)] = 0
    temperature: Annotated[float, msgspec.Meta(ge=1, le=100)] = 1.0
    bpe_dropout: Annotated[float, msgspec.Meta(ge=0, lt=1)] = 0.0
    bpe_dropout_side: Literal["both", "source", "target"] = "both"

    def filled(self, tokens: int = TOKENS_ON_CPU) -> "Batching":
        """Return these settings with micro-batches of `tokens`, or an update, if not set."""
        if self.tokens_per_micro_batch:
            return self
        tokens = min(tokens, self.tokens_per_update)
        return msgspec.structs.replace(self, tokens_per_micro_batch=tokens)
