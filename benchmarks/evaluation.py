"""What the parts of an evaluation cost: losses, the clean sample, BLEU with its interval.

    python benchmarks/evaluation.py TEXT      # a directory with train, val .en.gz and .de.gz

Trains nothing: the weights are random, and halves of the references stand for translations.
"""

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

from unisono.comm.group import Solo
from unisono.comm.strategies.all_reduce import AllReduce
from unisono.config.load import resolve
from unisono.config.settings import Settings
from unisono.corpus.reader import open_corpus
from unisono.prepare import prepare_corpus
from unisono.records.sentence_losses import write_losses
from unisono.score import score_bleu
from unisono.train.evaluation import sentence_losses
from unisono.train.job import build_session
from unisono.train.process_setup import Signals


def main() -> None:
    """Measure each part three times and print the shortest."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory)
        settings = small(Path(sys.argv[1]), home)
        for _ in prepare_corpus(settings.data, settings.corpus):
            pass
        corpus = open_corpus(home / "corpus")
        session, model = build_session(settings, corpus, Solo(), Signals(), AllReduce())
        model.eval()
        valid, sample = session.evaluator.valid, session.evaluator.training
        losses = sentence_losses(model, valid, Solo())
        references = valid.split.target_text()
        tell(f"losses of {len(valid)} sentences", lambda: sentence_losses(model, valid, Solo()))
        tell(f"of {len(sample)} training pairs", lambda: sentence_losses(model, sample, Solo()))
        tell("writing them", lambda: write_losses(home, 1, losses, valid.target_tokens))
        shorter = [line[: len(line) // 2] for line in references]
        tell("BLEU with its interval", lambda: score_bleu(shorter, references))


def tell(name: str, work: Callable[[], object]) -> None:
    """Print the shortest of three measurements."""
    times = []
    for _ in range(3):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    print(f"{name:32} {min(times):8.3f} s")


def small(text: Path, home: Path) -> Settings:
    """Return settings for a Transformer of width 128."""

    def pair(name: str) -> dict[str, str]:
        return {"source": str(text / f"{name}.en.gz"), "target": str(text / f"{name}.de.gz")}

    table = {
        "seed": 1,
        "run": str(home / "run"),
        "device": "cpu",
        "data": {"train": [pair("train")], "valid": pair("val")},
        "corpus": {"directory": str(home / "corpus"), "vocabulary": 8000},
        "model": {"width": 128, "heads": 4, "inner": 512, "encoder_layers": 3},
        "batching": {"tokens_per_update": 2000, "tokens_per_micro_batch": 2000},
        "train": {"max_steps": 1},
    }
    return resolve(table, where="benchmarks/evaluation.py")


if __name__ == "__main__":
    main()
