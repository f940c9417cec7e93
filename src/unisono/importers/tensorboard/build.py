"""Build a run from the TensorBoard event files of another trainer."""

import math
import re
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from unisono.errors import DataError
from unisono.importers.imported_run import ImportedRun, UserFacts, imported_step
from unisono.importers.tensorboard.event_files import (
    TRAINERS,
    Damage,
    Series,
    Tags,
    read_scalars,
)
from unisono.records.events import StepTaken, Validated
from unisono.records.view import Imported

PATTERN = "*tfevents*"
MOST_FILES = 2_000
PAUSE = 10  # times the median between two records: the run stood still
# Of one run of fairseq.
RUN_PARTS = ("train", "train_inner", "valid", "valid1", "valid2", "test")


@dataclass(frozen=True)
class FoundSeries:
    """The scalars of one run, the tags of its trainer, and the damage in its files."""

    tags: Tags
    series: dict[str, Series]
    damage: Damage

    def of(self, names: tuple[str, ...]) -> Series:
        """Return the first series that exists of `names`, else an empty one."""
        return next((self.series[name] for name in names if name in self.series), Series())

    def by_step(self, names: tuple[str, ...]) -> dict[int, float]:
        """Return its values by step."""
        return self.of(names).at()


def read_tensorboard(directory: Path, facts: UserFacts) -> ImportedRun:
    """Read the run in the event files below `directory`, or in that one file."""
    found = _found(directory)
    steps, validations = _steps(found), _validations(found)
    if not steps and not validations:
        raise DataError(
            f"{directory} has neither a training loss nor a validation loss",
            where=str(directory),
            fix="name the directory that TensorBoard is pointed to for this run",
        )
    times = [step.time for step in steps] + [v.time for v in validations]
    gaps = [b.step - a.step for a, b in zip(steps, steps[1:], strict=False)]
    about = Imported(
        trainer=f"{found.tags.trainer} (TensorBoard)",
        source=directory.name or str(directory),
        every_steps=round(median(gaps)) if gaps else 0,
        clock=True,
        notes=tuple(_notes(found)),
    )
    return ImportedRun(
        about=facts.applied(about), steps=steps, validations=validations, began=min(times)
    )


def _found(directory: Path) -> FoundSeries:
    damage = Damage()
    by_place = {}
    for place, files in _files(directory).items():
        series: dict[str, Series] = {}
        for path in files:
            read_scalars(path, series, damage)
        by_place[place] = series
    runs = _runs(by_place)
    kept = {place: found for place, s in runs.items() if (found := _known(s, damage))}
    if len(kept) > 1:
        names = "\n     ".join(str(place) for place in sorted(kept)[:20])
        raise DataError(
            f"{directory} holds {len(kept)} runs",
            where=str(directory),
            fix=f"name one: {names}",
        )
    if not kept:
        tags = sorted({tag for series in runs.values() for tag in series})
        raise DataError(
            f"{directory} has no tag of a known trainer"
            + (f": {', '.join(tags[:8])}" if tags else "; there are no scalars"),
            where=str(directory),
            fix=f"known trainers: {', '.join(tags.trainer for tags in TRAINERS)}",
        )
    return next(iter(kept.values()))


def _files(directory: Path) -> dict[Path, list[Path]]:
    """Return the event files by directory, in the order in which they were written."""
    if not directory.exists():
        raise DataError(f"{directory} does not exist", where=str(directory))
    found = (
        [directory] if directory.is_file() else sorted(directory.rglob(PATTERN), key=_in_order)
    )
    files = [path for path in found if path.is_file()]
    if not files or len(files) > MOST_FILES:
        raise DataError(
            f"{directory} has {len(files) or 'no'} event files",
            where=str(directory),
            fix="name the directory with the files events.out.tfevents.… of one run",
        )
    places: dict[Path, list[Path]] = {}
    for path in files:
        places.setdefault(path.parent, []).append(path)
    return places


def _in_order(path: Path) -> tuple[Path, list[str | int]]:
    """Sort by name, with numbers as numbers: the tenth file comes after the second."""
    parts = re.split(r"(\d+)", path.name)
    return path.parent, [int(part) if part.isdecimal() else part for part in parts]


def _runs(by_place: dict[Path, dict[str, Series]]) -> dict[Path, dict[str, Series]]:
    """Join the parts of a run: some trainers have a directory for each."""
    runs: dict[Path, dict[str, Series]] = {}
    for place, series in by_place.items():
        if place.name in RUN_PARTS and not any("/" in tag for tag in series):
            whole = runs.setdefault(place.parent, {})
            whole |= {f"{place.name}/{tag}": points for tag, points in series.items()}
        else:
            runs.setdefault(place, {}).update(series)
    return runs


def _known(series: dict[str, Series], damage: Damage) -> FoundSeries | None:
    tags = next((tags for tags in TRAINERS if tags.fit(series)), None)
    if tags is None:
        return None
    return FoundSeries(tags, {tag: series[tag] for tag in tags.known & set(series)}, damage)


def _steps(found: FoundSeries) -> tuple[StepTaken, ...]:
    tags, losses = found.tags, found.of(found.tags.loss)
    rates, norms = found.by_step(tags.learning_rate), found.by_step(tags.gradient_norm)
    recorded, speeds = found.by_step(tags.seconds), found.by_step(tags.tokens_per_second)
    epochs = found.by_step(tags.epoch)
    between = _between(losses)
    steps = []
    for place, step in enumerate(losses.steps):
        seconds = recorded.get(step, between[place] if not recorded else math.nan)
        tokens = speeds.get(step, math.nan) * seconds
        steps.append(
            imported_step(
                step,
                losses.times[place],
                loss=losses.values[place] * tags.loss_unit,
                seconds=seconds,
                learning_rate=rates.get(step, math.nan),
                gradient_norm=norms.get(step, math.nan),
                epoch=_whole(epochs.get(step, math.nan)),
                target_tokens=_whole(tokens),
            )
        )
    return tuple(steps)


def _between(series: Series) -> list[float]:
    """Return the mean seconds of an update since the previous record, for each record.

    NaN for the first, and after a pause such as the one between two starts of the run.
    """
    gaps = [math.nan] * len(series.steps)
    for place in range(1, len(gaps)):
        time = series.times[place] - series.times[place - 1]
        updates = series.steps[place] - series.steps[place - 1]
        if time > 0 and updates > 0:
            gaps[place] = time / updates
    known = [gap for gap in gaps if math.isfinite(gap)]
    most = PAUSE * median(known) if known else math.inf
    return [gap if gap <= most else math.nan for gap in gaps]


def _whole(number: float) -> int:
    return round(number) if math.isfinite(number) and 0 < number < 2**53 else 0


def _validations(found: FoundSeries) -> tuple[Validated, ...]:
    tags, losses = found.tags, found.of(found.tags.valid_loss)
    scores, seconds = found.by_step(tags.bleu), found.by_step(tags.valid_seconds)
    if _scale_is_unclear(scores):
        scores = {}
    return tuple(
        Validated(
            step=step,
            time=losses.times[place],
            loss=losses.values[place] * tags.loss_unit,
            bleu=scores.get(step, -1.0),
            sentences=0,
            target_tokens=0,
            seconds=seconds.get(step, math.nan),
        )
        for place, step in enumerate(losses.steps)
    )


def _scale_is_unclear(scores: dict[int, float]) -> bool:
    return (
        any(not 0 <= s <= 100 for s in scores.values()) or max(scores.values(), default=0) <= 1
    )


def _notes(found: FoundSeries) -> list[str]:
    tags, notes = found.tags, []
    if not found.of(tags.seconds).steps:
        notes.append(
            "the time of an update is the time between two records divided by their updates: "
            "it includes validations and checkpoints, but not intervals longer than "
            f"{PAUSE} times the median, such as the pause between two starts"
        )
    if tags.note:
        notes.append(tags.note)
    scores = found.by_step(tags.bleu)
    if scores and _scale_is_unclear(scores):
        notes.append("BLEU is left out: its scale may be 0 to 1 or 0 to 100")
    if found.damage.records:
        notes.append(f"{found.damage.records} damaged records were skipped")
    if found.damage.torn:
        notes.append(f"{found.damage.torn} files end within a record: normal after a kill")
    return notes
