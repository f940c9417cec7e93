"""`fairseq-train`, with each update counted."""

from typing import Any

import fairseq_shim  # noqa: F401
import journal
from fairseq.trainer import Trainer
from fairseq_cli import train

plain_step = Trainer.train_step
plain_stats = train.get_valid_stats


def counted_step(self: Any, samples: Any, *args: Any, **kwargs: Any) -> Any:
    """Make the update, then count what its samples held."""
    result = plain_step(self, samples, *args, **kwargs)
    pad = self.task.source_dictionary.pad()
    journal.count(
        sum(sample["target"].ne(pad).sum() for sample in samples),
        sum(sample["net_input"]["src_tokens"].ne(pad).sum() for sample in samples),
        sum(sample["nsentences"] for sample in samples),
    )
    return result


def told_stats(cfg: Any, trainer: Any, stats: Any, *args: Any, **kwargs: Any) -> Any:
    """Tell the validation loss without smoothing; fairseq counts in bits."""
    journal.validated(stats["nll_loss"] * 0.6931471805599453)
    return plain_stats(cfg, trainer, stats, *args, **kwargs)


Trainer.train_step = counted_step
train.get_valid_stats = told_stats

if __name__ == "__main__":
    train.cli_main()
