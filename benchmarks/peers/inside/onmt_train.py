"""OpenNMT-py's `onmt_train`, with each update counted."""

from typing import Any

import journal
import onmt_missing  # noqa: F401
from onmt.bin.train import main
from onmt.trainer import Trainer

plain_step = Trainer._gradient_accumulation
plain_validate = Trainer.validate


def counted_step(self: Any, true_batches: Any, *args: Any, **kwargs: Any) -> Any:
    """Make the update, then count what its batches held."""
    plain_step(self, true_batches, *args, **kwargs)
    pad = self.train_loss.padding_idx
    journal.count(
        sum(batch["tgt"][:, 1:, 0].ne(pad).sum() for batch in true_batches),
        sum(batch["srclen"].sum() for batch in true_batches),
        sum(len(batch["srclen"]) for batch in true_batches),
    )


def told_validate(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Validate, and tell the loss."""
    stats = plain_validate(self, *args, **kwargs)
    journal.validated(stats.xent())
    return stats


Trainer._gradient_accumulation = counted_step
Trainer.validate = told_validate

if __name__ == "__main__":
    main()
