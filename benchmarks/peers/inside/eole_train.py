"""The `eole` command, with each update counted."""

from typing import Any

import journal
from eole.bin.main import main
from eole.trainer import Trainer

plain_step = Trainer._train_step
plain_validate = Trainer.validate


def counted_step(self: Any, batches: Any, *args: Any, **kwargs: Any) -> Any:
    """Make the update, then count what its batches held."""
    plain_step(self, batches, *args, **kwargs)
    pad = self.train_loss.padding_idx
    journal.count(
        sum(batch["tgt"][:, 1:].ne(pad).sum() for batch in batches),
        sum(batch["srclen"].sum() for batch in batches),
        sum(len(batch["srclen"]) for batch in batches),
    )


def told_validate(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Validate, and tell the loss."""
    stats = plain_validate(self, *args, **kwargs)
    journal.validated(stats.xent())
    return stats


Trainer._train_step = counted_step
Trainer.validate = told_validate

if __name__ == "__main__":
    main()
