"""The small run of the self-test: a corpus and a config that every machine makes for itself."""

import shutil
from pathlib import Path

from unisono.config.load import resolve, to_toml
from unisono.config.settings import Settings
from unisono.datasets.builtin.write import write_builtin
from unisono.errors import DataError
from unisono.prepare.build import prepare_corpus

TRIAL_PREFIX = "unisono-selftest-"
CONFIG = "selftest.toml"
PARTS_RUN = "parts"  # the run that is killed and continued
UPDATES = 20
SAVED_AT, KILLED_AT = 8, 12


def trial_settings(directory: Path, device: str) -> Settings:
    """Return the settings of the small run; its files are below `directory`."""
    text = directory / "text"
    pairs = {
        name: {"source": str(text / f"{name}.en"), "target": str(text / f"{name}.de")}
        for name in ("train", "valid")
    }
    sizes = {"width": 64, "heads": 4, "inner": 128, "encoder_layers": 2, "decoder_layers": 2}
    table = {
        "run": str(directory / "run"),
        "device": device,
        "data": {"train": [pairs["train"]], "valid": pairs["valid"]},
        "corpus": {"directory": str(directory / "corpus"), "vocabulary": 400, "max_pieces": 60},
        "model": sizes,
        "batching": {"tokens_per_update": 2048, "tokens_per_micro_batch": 512},
        "schedule": {"name": "inverse_sqrt", "peak": 0.002, "warmup_steps": 4},
        "train": {"max_steps": UPDATES},
        "validation": {"every_steps": 1000, "bleu": False},
        "checkpoint": {"every_steps": SAVED_AT},
        "monitor": {"on": False},
    }
    return resolve(table, where="selftest")


def make_trial(directory: Path, device: str) -> Path:
    """Write text, corpus and config, unless they are there; return the config."""
    directory.mkdir(parents=True, exist_ok=True)
    config, settings = directory / CONFIG, trial_settings(directory, device)
    if not config.is_file():
        write_builtin(directory / "text", train=2000, valid=50, test=50)
        for _ in prepare_corpus(settings.data, settings.corpus):
            pass
        config.write_text(to_toml(settings), "utf-8")
    return config


def remove_trial(directory: Path) -> None:
    """Remove what `make_trial` wrote, and only that."""
    if not directory.name.startswith(TRIAL_PREFIX):
        raise DataError(
            f"{directory} is not a directory of the self-test",
            where="selftest",
            fix="remove it by hand",
        )
    shutil.rmtree(directory, ignore_errors=True)
