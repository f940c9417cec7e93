"""The Python API, as far as it works without torch: what `import unisono` offers.

`unisono.train` and `unisono.load` are in `api_torch`. A `config` is the path of a TOML file or
the same settings as a dict; keywords change it, as `--set` does on the command line.
"""

import os
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import msgspec

from unisono.bundle.pieces import pieces_of
from unisono.check.simulate import SimulatedJob, Simulation, simulate_run
from unisono.config.load import read_toml, resolve
from unisono.config.settings import Settings
from unisono.corpus.reader import Corpus, open_corpus
from unisono.cost_model.devices import device_called
from unisono.cost_model.exchange import nominal_link
from unisono.datasets import get as datasets_get
from unisono.datasets.builtin.write import write_builtin
from unisono.datasets.catalogue import BUILTIN, find_entry
from unisono.datasets.corpus_directory import DATA_TOML
from unisono.diagnose.diagnosis import diagnose
from unisono.diagnose.evidence.curve import bleu_curve, loss_curve
from unisono.diagnose.report import Answer, Finding, Report
from unisono.errors import ConfigError, suggest
from unisono.models.settings import PRESETS, TransformerSettings
from unisono.prepare.build import prepare_corpus
from unisono.records.events import AnyEvent, from_lines
from unisono.records.layout import RunDirectory
from unisono.records.view import RunView, read_run
from unisono.report.notebook import notebook_html
from unisono.score import Bleu, score_bleu
from unisono.small_files import read_lines, read_parsed, toml_table
from unisono.units import BIT_UNITS, amount

PathLike = str | os.PathLike[str]
ConfigLike = PathLike | Mapping[str, Any]
Points = tuple[tuple[int, float], ...]


def get_corpus(
    name: str,
    directory: PathLike | None = None,
    *,
    pairs: int = 200_000,
    held_out: int = 1000,
    seed: int = 1,
) -> dict[str, Any]:
    """Bring the text of a corpus to `directory`, by default data/NAME; return its `[data]`.

    `name` is "builtin" or any other that `unisono corpora get` knows. What is there already is
    verified, not downloaded again. Of the built-in corpus alone you may choose how many `pairs`
    there are to train on, how many are `held_out` for validation and for test, and the `seed`.
    """
    if name == BUILTIN:
        place = Path(directory or Path("data") / name)
        write_builtin(place, seed=seed, train=pairs, valid=held_out, test=held_out)
    else:
        entry = find_entry(name)
        place = Path(directory or Path("data") / entry.name)
        deque(datasets_get.get_corpus(entry, place), maxlen=0)
    data: dict[str, Any] = read_parsed(place / DATA_TOML, toml_table)["data"]
    return data


def prepare(
    config: ConfigLike,
    /,
    *,
    workers: int = 1,
    like: str | Path | None = None,
    **changes: Any,
) -> Corpus:
    """Clean the text that `config` names, learn subwords, write a corpus, and return it.

    A corpus that is there and up to date is left alone. Each keyword is a setting or a table of
    them: `seed=2`, `corpus={"vocabulary": 8000}`. With `workers` above 1, other processes share
    the work on large text; a script then needs the usual `if __name__ == "__main__":`. The
    pieces of the run or bundle `like` encode the text, or of what `[start]` names.
    """
    settings = settings_from(config, changes, training=False)
    origin = like or settings.start.from_
    pieces = pieces_of(Path(origin)) if origin else None
    steps = prepare_corpus(settings.data, settings.corpus, workers=workers, like=pieces)
    deque(steps, maxlen=0)
    return open_corpus(Path(settings.corpus.directory))


def score(hypotheses: Sequence[str], references: Sequence[str]) -> Bleu:
    """Compute cased, detokenised sacreBLEU of translations, with its 95 % interval."""
    if isinstance(hypotheses, str) or isinstance(references, str):
        raise ConfigError(
            "score takes lists of sentences, and this is a single text",
            where="score(hypotheses, references)",
            fix="write score([hypothesis], [reference])",
        )
    return score_bleu(hypotheses, references)


def simulate(
    model: str = "base",
    *,
    machines: Sequence[int] = (1, 2, 4),
    gpus_per_machine: int = 1,
    gpu: str = "V100",
    tflops: float = 0.0,
    precision: Literal["auto", "fp32", "tf32", "bf16", "fp16"] = "auto",
    link: str = "1gbit",
    latency: str = "100us",
    vocabulary: int = 32_000,
    tokens_per_update: int = 32_768,
    tokens_per_machine: int = 0,
    pieces_per_sentence: float = 28.0,
    steps: int = 100_000,
    validate_every: int = 4000,
    save_every: int = 2000,
    price: float = 0.0,
) -> Simulation:
    """Forecast a run on machines you do not have: seconds, waiting, hours and money.

    `model` is a preset. `machines` are the numbers of machines to compare, which the command
    line calls `--nodes`. `tflops` is the rate that each GPU reaches, instead of `gpu`; `link`
    and `latency` describe the network between machines, `price` is that of one machine for one
    hour. With `tokens_per_machine`, updates grow with the machines. Nothing is measured: rates
    are those of data sheets.
    """
    if model not in PRESETS:
        raise ConfigError(
            f"no preset is called {model}", where="model", fix=suggest(model, PRESETS)
        )
    numbers = (*machines, gpus_per_machine, vocabulary, tokens_per_update, steps)
    others = (validate_every, save_every, price, tflops, tokens_per_machine)
    if min(*numbers, pieces_per_sentence) <= 0 or min(others) < 0:
        raise ConfigError(
            "a size is 0 or less, or an interval, a rate or the price is negative",
            where="simulate(...)",
            fix="give machines, GPUs, vocabulary, tokens and steps above 0",
        )
    sizes = TransformerSettings(**PRESETS[model])
    device = None if tflops else device_called(gpu, "")
    reached = device.rate(precision, sizes.width, "") if device else tflops * 1e12
    job = SimulatedJob(
        model=sizes,
        vocabulary=vocabulary,
        tokens_per_update=tokens_per_machine or tokens_per_update,
        tokens_per_machine=tokens_per_machine,
        length=pieces_per_sentence,
        flops_per_second=reached,
        memory_rate=device.bandwidth if device else 0.0,
        updates=steps,
        price=price,
        evaluation_every=validate_every,
        checkpoint_every=save_every,
    )
    bits = amount(link, BIT_UNITS, "link", '"100mbit" or "10gbit"')
    seconds = amount(latency, {"us": 1e-6, "ms": 1e-3}, "latency", '"100us"')
    return simulate_run(job, machines, gpus_per_machine, nominal_link(bits, seconds))


def open_run(path: PathLike) -> "Run":
    """Read a run directory, finished or running, and answer the eleven questions about it."""
    view = read_run(Path(path))
    return Run(view, diagnose(view, time.time()))


def settings_from(
    config: ConfigLike, changes: Mapping[str, Any], *, training: bool = True
) -> Settings:
    """Return the settings of a file or of a dict, with `changes` merged in and all checked."""
    if isinstance(config, Mapping):
        return resolve(_merged(config, changes), where="config", training=training)
    path = Path(config)
    settings = resolve(_merged(read_toml(path), changes), where=str(path), training=training)
    return msgspec.structs.replace(settings, run=settings.run or f"runs/{path.stem}")


def _merged(table: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    # Another `name` chooses another schedule or optimizer: the old one's settings mean nothing.
    kept = {} if changes.get("name", table.get("name")) != table.get("name") else dict(table)
    for key, value in changes.items():
        old = kept.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            kept[key] = _merged(old, value)
        else:
            kept[key] = value
    return {key: _plain(value) for key, value in kept.items()}


def _plain(value: Any) -> Any:
    """Return a value as TOML would hold it: a path is a string."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return os.fspath(value) if isinstance(value, os.PathLike) else value


@dataclass(frozen=True)
class Curves:
    """What changed over a run: tuples of (step, value), thin enough to plot as they are."""

    training_loss: Points
    validation_loss: Points
    bleu: Points
    learning_rate: Points
    step_seconds: Points


@dataclass(frozen=True, eq=False)
class Run:
    """A run as it stood when it was opened. In a notebook it shows itself.

    `view` has everything that was recorded, `report` everything the diagnosis found.
    """

    view: RunView = field(repr=False)
    report: Report = field(repr=False)

    @property
    def path(self) -> Path:
        """Return the run directory."""
        return self.view.path

    @property
    def headline(self) -> str:
        """Return the run in one sentence."""
        return self.report.headline

    @property
    def answers(self) -> dict[str, Answer]:
        """Return the eleven answers by their ids: "duration", "trained", "network" ..."""
        return {answer.id: answer for answer in self.report.answers}

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Return what the rules noticed."""
        return self.report.findings

    @property
    def curves(self) -> Curves:
        """Return losses, BLEU, learning rate and time of an update, each over the steps."""
        steps, validations = self.view.steps, self.view.validations
        return Curves(
            training_loss=tuple((step.step, step.loss) for step in steps),
            validation_loss=tuple(loss_curve(validations)),
            bleu=tuple(bleu_curve(validations)),
            learning_rate=tuple((step.step, step.learning_rate) for step in steps),
            step_seconds=tuple((step.step, step.seconds) for step in steps),
        )

    @cached_property
    def events(self) -> tuple[AnyEvent, ...]:
        """Return the events of the leading process in the order of their recording.

        Those that a crash or a roll-back undid are among them; `view` leaves them out.
        """
        file = RunDirectory(self.path).events(0)
        return tuple(from_lines(read_lines(file))) if file.is_file() else ()

    def __repr__(self) -> str:
        return f"<Run {self.path}: {self.headline}>"

    def _repr_html_(self) -> str:
        return notebook_html(self.report)
