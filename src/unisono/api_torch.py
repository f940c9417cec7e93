"""The Python API, as far as it needs torch: `unisono.train` and `unisono.load`."""

import os
from collections.abc import Generator
from contextlib import closing
from pathlib import Path
from typing import Any, Literal

import msgspec

from unisono.api import ConfigLike, settings_from
from unisono.bundle.format import bundle_at
from unisono.bundle.reader import open_bundle
from unisono.check.auto_strategy import settle_strategy
from unisono.comm.bootstrap.device import pick_device
from unisono.config.settings import Settings
from unisono.errors import ConfigError
from unisono.live.live_diagnosis import LiveDiagnosis
from unisono.records.events import AnyEvent
from unisono.train.job import run_training
from unisono.translate.settings import Decoding
from unisono.translate.translator import Translator


def train(config: ConfigLike, /, **changes: Any) -> Generator[AnyEvent, None, None]:
    """Train as `config` says and yield each event: updates, validations, checkpoints, findings.

    Wrong settings are an error at once; training begins with the first event that is asked for.
    Every event is in the run directory before it is yielded. An unfinished run in the same
    directory is continued, so leaving the loop early loses no more than the updates since the
    last checkpoint. Ctrl-C, or interrupting a notebook's kernel, finishes the update and saves.
    `config` and `changes` are those of `prepare`.
    """
    settings = settings_from(config, changes)
    if not settings.run:
        raise ConfigError(
            "these settings do not name a run directory", where="run", fix='add run="runs/NAME"'
        )
    return _events(settings)


def _events(settings: Settings) -> Generator[AnyEvent, None, None]:
    with closing(LiveDiagnosis(Path(settings.run))) as diagnosis:
        for event in run_training(settings, choose_strategy=settle_strategy):
            yield event
            yield from diagnosis.saw(event)
        yield from diagnosis.finish()


def load(
    path: str | os.PathLike[str],
    *,
    device: Literal["auto", "cpu", "cuda"] = "auto",
    beam: int | None = None,
    length_penalty: float | None = None,
) -> Translator:
    """Load the model of a bundle or of a finished run; its `translate` takes a list of lines.

    `beam` and `length_penalty` are those the bundle recommends unless you give others.
    """
    bundle = open_bundle(bundle_at(Path(path)))
    choices = {"beam": beam, "length_penalty": length_penalty}
    given = {name: value for name, value in choices.items() if value is not None}
    recommended = msgspec.to_builtins(bundle.description.decoding)
    try:
        decoding = msgspec.convert({**recommended, **given}, Decoding)
    except msgspec.ValidationError as error:
        raise ConfigError(str(error), where="unisono.load") from error
    return bundle.translator(pick_device(device), decoding)
