"""Runs made by hand, whose truth is known."""

import math
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np

from unisono.records.events import Ended, Saved, Started, StepTaken, Tested, Validated
from unisono.records.sentence_losses import SentenceLosses
from unisono.records.view import RunView, Sample

BEGAN = 1_700_000_000.0
PARAMETERS = 60_880_896
WARMUP = 40

CONFIG = {
    "seed": 1,
    "model": {"width": 64},
    "optimizer": {"name": "adam", "beta1": 0.9},
    "schedule": {"name": "inverse_sqrt", "peak": 0.001, "warmup_steps": WARMUP},
    "train": {"max_steps": 200, "clip_norm": 0.0, "patience": 0, "max_time": ""},
    "validation": {"every_steps": 20, "best": "loss"},
    "checkpoint": {"every_steps": 100, "keep": 2},
}

CORPUS = {
    "format": 1,
    "source_language": "en",
    "target_language": "de",
    "vocabulary": 8000,
    "inputs": [
        {
            "split": "train",
            "source": {"name": "train.en", "bytes": 600_000, "lines": 10_000, "sha256": "0"},
            "target": {"name": "train.de", "bytes": 700_000, "lines": 10_000, "sha256": "1"},
        }
    ],
    "splits": {
        "train": {"pairs": 9_500, "source_tokens": 120_000, "target_tokens": 130_000},
        "valid": {"pairs": 300, "source_tokens": 4_000, "target_tokens": 4_100},
    },
    "read_pairs": 10_300,
    "dropped": {
        "too_long": {"count": 100, "examples": [["a very long line", "eine lange Zeile"]]},
        "duplicate": {"count": 400, "examples": []},
    },
}


def start(rank=0, size=1, host="alpha", step=0, time=BEGAN, device="cpu"):
    return Started(
        time=time,
        step=step,
        rank=rank,
        size=size,
        local_rank=rank,
        host=host,
        pid=100 + rank,
        device=device,
        threads=2,
        strategy="ddp",
        parameters=PARAMETERS,
        updates_per_epoch=50,
    )


def rate(step):
    return 0.001 * min(step / WARMUP, math.sqrt(WARMUP / step))


def train_loss(step):
    return 2.0 + 6.0 * math.exp(-step / 40)


def step(number, *, loss=None, began=BEGAN, seconds=1.0, time=None, **parts):
    given = {"forward": 0.3, "backward": 0.5, "optimizer": 0.1, **parts}
    return StepTaken(
        time=began + number * seconds if time is None else time,
        step=number,
        epoch=number // 50,
        loss=train_loss(number) if loss is None else loss,
        learning_rate=rate(number),
        target_tokens=1000,
        source_tokens=900,
        positions=2000,
        sentences=40,
        seconds=seconds,
        **{"gradient_norm": 0.7, **given},
    )


def with_clean(validations, losses):
    """The validations with these losses of the clean sample of the training set."""
    pairs = zip(validations, losses, strict=True)
    return tuple(msgspec.structs.replace(v, clean_training_loss=loss) for v, loss in pairs)


def validated(number, loss, bleu=-1.0, seconds=0.0, **more):
    return Validated(
        time=BEGAN + number + 0.5,
        step=number,
        loss=loss,
        bleu=bleu,
        sentences=300,
        target_tokens=4100,
        seconds=seconds,
        **more,
    )


def saved(number, seconds=0.0):
    files = {
        "model.safetensors": 4 * PARAMETERS + 9_000,
        "optimizer.safetensors": 8 * PARAMETERS + 18_000,
        "progress.json": 400,
    }
    return Saved(
        time=BEGAN + number + 0.6,
        step=number,
        name=f"step-{number:07d}",
        bytes=sum(files.values()),
        files=files,
        seconds=seconds,
    )


def ended(number=200, reason="max_steps", time=None):
    time = BEGAN + number + 1 if time is None else time
    return Ended(time=time, step=number, reason=reason, seconds=time - BEGAN)


def healthy_run(steps=200, **changes):
    """One process, 200 updates of a second, 90 % of it arithmetic, ten flat validations."""
    run = RunView(
        path=Path("runs/made"),
        config=CONFIG,
        corpus=CORPUS,
        starts=(start(),),
        ranks={0: tuple(step(n) for n in range(1, steps + 1))},
        validations=tuple(validated(n, 2.5, bleu=20.0) for n in range(20, steps + 1, 20)),
        saves=tuple(saved(n) for n in range(100, steps + 1, 100)),
        ends=(ended(steps),),
    )
    return replace(run, **changes)


def curve(losses, scores=None, every=20):
    """Validations with these losses, and these BLEUs if given."""
    scores = scores or [-1.0] * len(losses)
    pairs = zip(losses, scores, strict=True)
    return tuple(validated(every * n, *pair) for n, pair in enumerate(pairs, start=1))


def with_sentences(validations, sentences=1000, scatter=0.02, seed=5):
    """Losses of sentences that make up the losses of `validations`.

    A sentence is as hard at one evaluation as at another, up to `scatter` of its loss.
    """
    random = np.random.default_rng(seed)
    tokens = random.integers(5, 40, sentences).astype(np.int32)
    hardness = random.gamma(4.0, 0.25, sentences)
    at_step = {}
    for event in validations:
        raw = tokens * hardness * (1.0 + scatter * random.normal(size=sentences))
        at_step[event.step] = (event.loss * raw * (tokens.sum() / raw.sum())).astype("float32")
    return SentenceLosses(tokens, at_step)


def team(parts_of_rank, hosts, steps=200, seconds=1.0):
    """A run of several processes: `parts_of_rank(rank, step)` gives the parts of each step."""
    size = len(hosts)
    return healthy_run(
        steps,
        starts=tuple(start(rank, size, host) for rank, host in enumerate(hosts)),
        ranks={
            rank: tuple(
                step(n, seconds=seconds, **parts_of_rank(rank, n)) for n in range(1, steps + 1)
            )
            for rank in range(size)
        },
    )


def sample(source="a house", reference="ein Haus", translation="ein Haus"):
    return Sample(source, reference, translation)


def scored(number=200, bleu=21.0):
    return Tested(
        time=BEGAN + number + 0.9,
        step=number,
        bleu=bleu,
        bleu_signature="nrefs:1",
        sentences=300,
        seconds=0.0,
    )


def now(seconds=0.0):
    """The moment `seconds` after the healthy run ended."""
    return BEGAN + 201 + seconds
