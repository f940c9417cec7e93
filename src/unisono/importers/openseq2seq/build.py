"""Build a run from a log of OpenSeq2Seq, and a TOML config from its settings."""

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import tomli_w

from unisono.config.load import resolve
from unisono.errors import ConfigError, DataError
from unisono.importers.imported_run import (
    UNKNOWN,
    ImportedRank,
    ImportedRun,
    UserFacts,
    imported_step,
)
from unisono.importers.openseq2seq.log import (
    Evaluation,
    LoggedRun,
    LogPosition,
    LogReader,
    Spent,
    log_lines,
)
from unisono.importers.openseq2seq.printed_config import Parameters, inner
from unisono.importers.openseq2seq.python_config import read_source
from unisono.importers.openseq2seq.settings import ConfigTranslation, settings_of
from unisono.records.events import StepTaken, Validated
from unisono.records.view import Imported

FIRST = ("seed", "data", "corpus", "model", "batching", "optimizer", "schedule", "train")


def read_settings(path: Path, processes: int = 0) -> ConfigTranslation:
    """Convert the settings at `path`, which is parsed and never executed."""
    made = settings_of(read_source(path), processes)
    if "width" not in made.table.get("model", {}):
        raise DataError(
            f"{path} does not describe a Transformer whose sizes can be read",
            where=str(path),
            fix="\n     ".join(made.left[:5]) or "name another settings file",
        )
    made.put("corpus", "directory", f"corpora/{path.stem}")
    if "train" not in made.table.setdefault("data", {}):
        made.left.append("data.train: the settings name no text files that could be read")
    resolve(made.table, where=f"{path} as TOML")
    return made


def to_toml(made: ConfigTranslation, name: str) -> str:
    """Return the TOML, with comments on what was converted and what was not."""
    lines = [
        f"# Made by `unisono import config` from {_line(name)}, which was parsed and not run.",
        "# The end lists what could not be converted. Everything else has its default.",
        "",
        tomli_w.dumps(_ordered(made.table)).rstrip(),
        "",
    ]
    if made.notes:
        lines += ["# How it was converted:", *(f"#  * {_line(note)}" for note in made.notes)]
    if made.left:
        lines += ["# Not converted:", *(f"#  * {_line(entry)}" for entry in made.left)]
    return "\n".join(lines) + "\n"


def _ordered(table: dict[str, Any]) -> dict[str, Any]:
    names = [name for name in FIRST if name in table]
    return {name: table[name] for name in [*names, *(n for n in table if n not in names)]}


def _line(text: str) -> str:
    """Return `text` on one line, so that nothing in it can end the comment."""
    return "".join(c if c.isprintable() else " " for c in text)


TRAINER = "OpenSeq2Seq"
LARGEST_COUNT = 10**12
KEPT = ("model", "optimizer", "schedule", "train", "validation", "checkpoint", "decoding")
FORCED_BLEU = (
    "the BLEU in the log does not score translations: OpenSeq2Seq predicts each word from the "
    "reference words before it (teacher forcing), and a model that only repeats its input "
    "scores 95; it is shown separately and not compared with other BLEU scores"
)
_SURROGATE = re.compile(r"[^\x20-\x7e\xa0-\ud7ff\ue000-\U0010ffff]")


def read_openseq2seq(path: Path, facts: UserFacts, wanted: int = 0) -> ImportedRun:
    """Read run number `wanted` of the log at `path`; 0 is the last one."""
    reader = LogReader(wanted)
    reader.read(log_lines(path))
    _check(reader, path, wanted)
    logged = reader.kept
    parameters = Parameters(_table(logged, "Training"), _table(logged, "Evaluation"), {})
    steps = _steps(logged, parameters)
    every = _every(steps, parameters)
    all_placed = 0 < logged.size == len(logged.places)
    about = Imported(
        trainer=TRAINER,
        source=_clean(path.name),
        every_steps=every,
        clock=logged.clock > 0,
        ended=logged.finished,
        processes=_processes(logged, parameters),
        machines=_machines(logged) if all_placed else int(_alone(logged, parameters)),
        parameters=logged.parameters,
        device="cuda" if logged.places or logged.devices else "",
        notes=tuple(_notes(reader, every, parameters)),
    )
    config = dict(_possible(settings_of(parameters).table))
    return ImportedRun(
        about=facts.applied(about),
        steps=steps,
        validations=_validations(logged, parameters),
        ranks=_ranks(logged, facts.applied(about).processes),
        began=logged.clock,
        config={**config, "openseq2seq": _plain(parameters.train)},
        environment={"devices": sorted(map(_clean, logged.devices))} if logged.devices else {},
    )


def _possible(tables: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the tables that our strict config reader accepts: a log may contain anything."""
    for name in KEPT:
        if name not in tables:
            continue
        with suppress(ConfigError):
            least = {"data": {}, "corpus": {"directory": "-"}, name: tables[name]}
            resolve(least, where="log", training=False)
            yield name, tables[name]


def _check(reader: LogReader, path: Path, wanted: int) -> None:
    if wanted > len(reader.found) > 0:
        raise ConfigError(
            f"{path} holds {len(reader.found)} runs, not {wanted}",
            where="--run",
            fix="\n     ".join(["choose one of these:", *_listed(reader)]),
        )
    if reader.found:
        return
    if reader.lines:
        raise DataError(
            f"{path} is a log of OpenSeq2Seq, but ends before the first loss",
            where=str(path),
            fix="there is nothing to report yet; look at the end of the log for what happened",
        )
    raise DataError(
        f"{path} is not a log of OpenSeq2Seq: it has no line such as `*** Global step 100:`",
        where=str(path),
        fix="name the file that the output of run.py went to, such as nohup.out",
    )


def _listed(reader: LogReader) -> list[str]:
    spans = enumerate(reader.found, start=1)
    return [f"--run {number}: steps {a:,} to {b:,}" for number, (a, b) in spans]


def _table(logged: LoggedRun, name: str) -> dict[str, object]:
    table = logged.tables.get(name)
    return dict(table.entries) if table is not None else {}


def _number(parameters: Parameters, name: str) -> int:
    value = parameters.train.get(name)
    return value if isinstance(value, int) and 0 < value < LARGEST_COUNT else 0


def _time(logged: LoggedRun, spent: Spent, every: int) -> float:
    """Return the time of a record: each reading is the mean of `every` updates before it."""
    return logged.clock + (every * spent.readings if every else spent.weighted)


def _steps(logged: LoggedRun, parameters: Parameters) -> tuple[StepTaken, ...]:
    every = _number(parameters, "print_loss_steps")
    steps = []
    for place, record in enumerate(logged.records):
        if record.loss is None:
            continue
        # The first reading is the time since the start, divided by `print_loss_steps`.
        seconds = record.seconds if record.seconds is not None and place else UNKNOWN
        time, loss, epoch = _time(logged, record.spent, every), record.loss, record.epoch
        steps.append(imported_step(record.step, time, loss=loss, seconds=seconds, epoch=epoch))
    return tuple(steps)


def _every(steps: tuple[StepTaken, ...], parameters: Parameters) -> int:
    gaps = [b.step - a.step for a, b in zip(steps, steps[1:], strict=False)]
    return _number(parameters, "print_loss_steps") or min(gaps, default=0)


def _validations(logged: LoggedRun, parameters: Parameters) -> tuple[Validated, ...]:
    every = _number(parameters, "print_loss_steps")
    return tuple(
        Validated(
            step=_validated_at(evaluation, parameters),
            time=_time(logged, evaluation.spent, every),
            loss=evaluation.loss,
            forced_bleu=-1.0 if evaluation.bleu is None else 100 * evaluation.bleu,
            sentences=0,
            target_tokens=0,
            seconds=UNKNOWN,
        )
        for evaluation in logged.evaluations
    )


def _validated_at(evaluation: Evaluation, parameters: Parameters) -> int:
    """Return the multiple of `eval_steps` between two printed steps, else the first step."""
    begin, every = evaluation.after, _number(parameters, "eval_steps")
    if begin is None:
        return 0
    multiple = -(-begin // every) * every if every else begin
    end = evaluation.before
    limit = begin + _number(parameters, "print_loss_steps") if end is None else end
    return multiple if multiple <= limit else begin


def _alone(logged: LoggedRun, parameters: Parameters) -> bool:
    return parameters.train.get("use_horovod") is False and not logged.horovod


def _processes(logged: LoggedRun, parameters: Parameters) -> int:
    if logged.size:
        return logged.size
    if _alone(logged, parameters):
        return 1
    known = len(logged.ranks)
    return known if logged.ranks == set(range(known)) else 0


def _machines(logged: LoggedRun) -> int:
    """Return on how many machines the processes ran; 0 if names and addresses are ambiguous.

    Machines may share a name; then their addresses differ. If only a device occurs twice, there
    may be two machines, or two processes that each see only their own device.
    """
    by_host: dict[str, list[LogPosition]] = {}
    for place in logged.places.values():
        by_host.setdefault(place.host, []).append(place)
    machines = 0
    for host, places in by_host.items():
        known = [logged.interfaces.get((host, place.pid)) for place in places]
        addresses = {address for _, address in filter(None, known)} if all(known) else set()
        twice = len({place.device for place in places}) < len(places)
        if twice and len(addresses) < 2:
            return 0
        machines += max(1, len(addresses))
    return machines


def _ranks(logged: LoggedRun, processes: int) -> tuple[ImportedRank, ...]:
    ranks = []
    for rank in range(processes):
        place = logged.places.get(rank)
        if place is None:
            ranks.append(ImportedRank(rank))
            continue
        name, address = logged.interfaces.get((place.host, place.pid), ("", ""))
        ranks.append(ImportedRank(rank, place.host, place.pid, place.device, name, address))
    return tuple(ranks)


def _notes(reader: LogReader, every: int, parameters: Parameters) -> list[str]:
    logged = reader.kept
    often = f"every {every:,} updates" if every else "now and then"
    smoothed = ", with label smoothing" if _smoothing(parameters) else ""
    notes = [
        f"the log has a loss {often}: the one of a single batch of rank 0{smoothed}",
        f"the log has a time {often}: the mean of the updates since the previous one, "
        "including validations",
    ]
    if logged.evaluations:
        notes.append(_note_on_steps(parameters))
    if any(evaluation.bleu is not None for evaluation in logged.evaluations):
        notes.append(FORCED_BLEU)
    if logged.clock:
        notes.append("times count from the first one in the log; its time zone is unknown")
    return notes + _notes_on_damage(reader)


def _smoothing(parameters: Parameters) -> bool:
    value = inner(parameters.train, "loss_params").get("label_smoothing")
    return isinstance(value, float) and value > 0


def _note_on_steps(parameters: Parameters) -> str:
    every = _number(parameters, "eval_steps")
    if every:
        return (
            "the log does not say at which update it validated; assumed is the multiple "
            f"of eval_steps = {every:,} between the updates printed before and after"
        )
    return (
        "the log does not say at which update it validated; assumed is the one "
        "printed before, though it was a little later"
    )


def _notes_on_damage(reader: LogReader) -> list[str]:
    logged, notes = reader.kept, []
    if len(reader.found) > 1:
        taken = f"number {reader.wanted}" if reader.wanted else "the last one"
        notes.append(
            f"the file holds {len(reader.found)} runs; this is {taken} "
            f"({'; '.join(_listed(reader)[:20])})"
        )
    if logged.torn:
        notes.append(f"{logged.torn} losses are incomplete in the log and left out")
    if logged.thinned > 1:
        notes.append(f"of the many records, one in {logged.thinned} was kept")
    damaged = [name for table in logged.tables.values() for name in table.damaged]
    if damaged:
        notes.append(f"settings that could not be read: {', '.join(sorted(set(damaged)))}")
    if "Training" not in logged.tables:
        notes.append("the settings of the run are not in the log")
    return notes


def _plain(value: object) -> dict[str, object]:
    """Return settings as TOML can hold them: names as strings, and no None."""
    plain = msgspec.to_builtins(_without_none(value), enc_hook=str)
    return plain if isinstance(plain, dict) else {}


def _without_none(value: object) -> object:
    if isinstance(value, dict):
        kept = {_clean(str(k)): _without_none(v) for k, v in value.items() if v is not None}
        return {key: item for key, item in kept.items() if key}
    if isinstance(value, list):
        return [_without_none(item) for item in value if item is not None]
    if isinstance(value, bool | float):
        return value
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**63 else str(value)
    name = getattr(value, "name", value)
    return _clean(str(name))


def _clean(text: str) -> str:
    return _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)
