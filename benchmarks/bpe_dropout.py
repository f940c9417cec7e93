"""What BPE-dropout costs: the seconds of one core that the updates of an epoch take to make.

    taskset -c 1 python benchmarks/bpe_dropout.py CORPUS [--dropout 0.1] [--epochs 3] [--size 1]

Once without and once with it; nothing is trained. `--size` is the number of processes: each
makes tensors of its share alone, but respells the whole update.
"""

import argparse
import time
from itertools import islice
from pathlib import Path

from unisono.batching.bpe_dropout import bpe_dropout_for
from unisono.batching.settings import Batching
from unisono.batching.stream import Stream
from unisono.corpus.reader import Corpus, open_corpus


def measure(corpus: Corpus, dropout: float, epochs: int, size: int, updates: int) -> None:
    """Print a line for each epoch."""
    batching = Batching(
        tokens_per_update=4096 * size, tokens_per_micro_batch=4096, bpe_dropout=dropout
    )
    longest = int(corpus.manifest.settings.get("max_pieces", 200))
    bpe_dropout = bpe_dropout_for(corpus.tokenizers(), batching, seed=1, max_pieces=longest)
    stream = Stream(corpus.split("train"), batching, 1, 0, size, bpe_dropout=bpe_dropout)
    for epoch in range(1, epochs + 1):
        works, began = stream.from_position(epoch, 0), time.process_time()
        taken = islice(works, min(updates, stream.updates_in(epoch)))
        plans = [work.plan for work in taken]
        works.close()
        seconds = time.process_time() - began
        target = sum(plan.target_tokens for plan in plans)
        tokens = target + sum(plan.source_tokens for plan in plans)
        print(
            f"dropout {dropout:g} epoch {epoch}: {len(plans):,} updates, {tokens:,} tokens, "
            f"{seconds:.2f} s of a core; {1e6 * seconds * size / tokens:.3f} µs for each token "
            f"of its share; {100 * seconds * size * 3000 / target:.2f} % of a core at 3,000 "
            "target tokens/s",
            flush=True,
        )


def main() -> None:
    """Measure without, then with BPE-dropout."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--size", type=int, default=1)
    parser.add_argument("--updates", type=int, default=10**9, help="at most, of each epoch")
    chosen = parser.parse_args()
    corpus = open_corpus(chosen.corpus)
    for dropout in (0.0, chosen.dropout):
        measure(corpus, dropout, chosen.epochs, chosen.size, chosen.updates)


if __name__ == "__main__":
    main()
