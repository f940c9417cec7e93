"""How large a batch is, as a user writes it. No torch here."""

from typing import Annotated

import msgspec

Tokens = Annotated[int, msgspec.Meta(ge=1)]


class Budget(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many tokens make an update, and how many fit through the model at once.

    Both count positions of the longer side including padding. The number of processes
    does not appear: they share out the micro-batches of an update.
    """

    tokens_per_update: Tokens = 32768
    tokens_per_micro_batch: Tokens = 4096

    @property
    def micro_batches_per_update(self) -> int:
        """Return how many micro-batches make an update."""
        return max(1, round(self.tokens_per_update / self.tokens_per_micro_batch))
