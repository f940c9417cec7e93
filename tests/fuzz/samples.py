"""The samples that are damaged: one of each format, as small as they come."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

from fuzz.readers import (
    COMPARE,
    GOLDEN,
    IMPORT_CONFIG,
    IMPORT_LOG,
    LIST_ENTRY,
    PREPARE,
    REPORT,
    ROOT,
    SCORE,
    SHOW,
    SHOW_CHECKPOINT,
    SHOW_JSON,
    TRAIN,
    TRANSLATE,
    WATCH,
    Reader,
)

ENTRIES = ROOT.parent / "src" / "unisono" / "datasets" / "entries"
CONFIG = """
import tensorflow as tf
base_params = {"use_horovod": True, "num_gpus": 1, "batch_size_per_gpu": 256,
               "max_steps": 1000, "lr_policy_params": {"learning_rate": 2.0}}
train_params = {"data_layer_params": {"source_file": "a", "target_file": "b"}}
"""


def run(target: Path) -> Reader:
    """A run of ours, with what a sampler wrote."""
    shutil.copytree(GOLDEN / "run-1", target)
    shutil.rmtree(target / "checkpoints" / "step-0000120")
    (target / "monitor").mkdir()
    shutil.copy(GOLDEN / "monitor-1.jsonl", target / "monitor" / "rank-0000.jsonl")
    journal = target / "events" / "rank-0000.jsonl"
    lines = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join(lines[:6] + lines[-12:]))
    status = {"state": "finished", "step": 120, "time": 1.0, "message": "", "format": 1}
    (target / "status.json").write_text(json.dumps(status))
    return Reader(target, (REPORT, SHOW, WATCH, COMPARE))


def imported(target: Path) -> Reader:
    """A run of another trainer."""
    shutil.copytree(GOLDEN / "imported-1", target)
    for journal in target.glob("events/*.jsonl"):
        lines = journal.read_text().splitlines(keepends=True)
        journal.write_text("".join(lines[:12] + lines[-4:]))
    return Reader(target, (REPORT, SHOW_JSON))


def checkpoint(target: Path) -> Reader:
    """A checkpoint: damage is found by its checksums."""
    shutil.copytree(GOLDEN / "checkpoints-2" / "step-0000002", target / "step-0000002")
    return Reader(target, (SHOW_CHECKPOINT,), checked=True)


def checkpoint_rehashed(target: Path) -> Reader:
    """A checkpoint whose checksums were made to match the damage."""
    shutil.copytree(GOLDEN / "checkpoints-2" / "step-0000002", target / "step-0000002")
    return Reader(target, (SHOW_CHECKPOINT,), rehash="manifest.json")


def bundle(target: Path) -> Reader:
    """A bundle: damage is found by its checksums."""
    shutil.copytree(GOLDEN / "bundle-1", target)
    return Reader(target, (SHOW, TRANSLATE), given="one two\n", checked=True)


def bundle_rehashed(target: Path) -> Reader:
    """A bundle whose checksums were made to match the damage."""
    shutil.copytree(GOLDEN / "bundle-1", target)
    return Reader(target, (SHOW, TRANSLATE), given="one two\n", rehash="manifest.json")


def corpus(target: Path) -> Reader:
    """A prepared corpus."""
    shutil.copytree(ROOT / "corpus" / "golden" / "format-1", target)
    return Reader(target, (SHOW, SHOW_JSON), checked=True)


def entry(target: Path) -> Reader:
    """An entry of the catalogue of corpora."""
    target.mkdir()
    shutil.copy(ENTRIES / "multi30k-en-de.toml", target / "entry.toml")
    return Reader(target, (LIST_ENTRY,))


def foreign_config(target: Path) -> Reader:
    """Settings of OpenSeq2Seq: Python that is read and never run."""
    target.mkdir()
    (target / "config.py").write_text(CONFIG)
    return Reader(target, (IMPORT_CONFIG,))


def foreign_log(target: Path) -> Reader:
    """A log of OpenSeq2Seq."""
    from importers.made_logs import log

    target.mkdir()
    (target / "log.txt").write_text(log())
    return Reader(target, (IMPORT_LOG,))


def settings(target: Path) -> Reader:
    """Settings that a person wrote."""
    target.mkdir()
    shutil.copy(ROOT.parent / "configs" / "tiny.toml", target / "config.toml")
    return Reader(target, (TRAIN, PREPARE))


def texts(target: Path) -> Reader:
    """A translation and its reference."""
    target.mkdir()
    (target / "output.de").write_text("eins zwei drei vier\nfünf\n", "utf-8")
    (target / "test.de").write_text("eins zwei drei vier\nsechs\n", "utf-8")
    return Reader(target, (SCORE,))


READERS: dict[str, Callable[[Path], Reader]] = {
    made.__name__: made
    for made in (
        *(run, imported, checkpoint, checkpoint_rehashed, bundle, bundle_rehashed, corpus),
        *(entry, foreign_config, foreign_log, settings, texts),
    )
}
