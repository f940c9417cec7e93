"""Several runs side by side: what is different about them, and what came of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from unisono.diagnose.evidence.scores import best_scored, bleu_words
from unisono.diagnose.report import Report
from unisono.diagnose.wording import percent
from unisono.records.view import RunView
from unisono.units import duration

NONE = "–"
NOT_COMPARED = ("run",)  # every run has a directory of its own


@dataclass(frozen=True)
class Row:
    """One fact of each run, as people read it; `differs` if it is not the same for all."""

    name: str
    cells: tuple[str, ...]

    @property
    def differs(self) -> bool:
        """Return whether the runs differ in it."""
        return len(set(self.cells)) > 1


@dataclass(frozen=True)
class Comparison:
    """The runs by name, the settings in which they differ, and what came of them."""

    names: tuple[str, ...]
    settings: tuple[Row, ...]
    results: tuple[Row, ...]


def compare_runs(runs: Sequence[tuple[RunView, Report]]) -> Comparison:
    """Put runs side by side, in the order given."""
    flat = [_flat(view.config) for view, _ in runs]
    names = dict.fromkeys(name for table in flat for name in table)
    settings = [
        Row(name, tuple(_text(table.get(name)) for table in flat))
        for name in names
        if name not in NOT_COMPARED
    ]
    results = [dict(_results(view, report)) for view, report in runs]
    return Comparison(
        names=tuple(str(view.path) for view, _ in runs),
        settings=tuple(row for row in settings if row.differs),
        results=tuple(
            Row(name, tuple(found[name] for found in results)) for name in results[0]
        ),
    )


def _results(view: RunView, report: Report) -> list[tuple[str, str]]:
    """Return what came of a run, always the same facts in the same order."""
    took, step = report.answer("duration"), report.answer("step_time").values
    learnt = report.answer("overfitting").values
    best = best_scored(view)
    tokens, seconds = step.get("target_tokens_per_second"), step.get("mean_seconds")
    loss, shares = learnt.get("best_loss"), report.bottleneck.shares
    measured = report.bottleneck.measured is not False
    return [
        ("state", took.verdict),
        *_world(view),
        ("updates", f"{view.steps[-1].step:,}" if view.steps else NONE),
        ("time", duration(took.values["seconds"]) if took.values.get("seconds") else NONE),
        ("a step", duration(seconds) if seconds else NONE),
        ("target tokens/s", f"{tokens:,.0f}" if tokens else NONE),
        ("best validation loss", f"{loss:.4f}" if loss is not None else NONE),
        ("at step", f"{learnt['best_step']:,}" if loss is not None else NONE),
        ("best validation BLEU", bleu_words(best) if best else NONE),
        ("test BLEU", bleu_words(view.tests[-1]) if view.tests else NONE),
        ("signature of BLEU", _signature(view)),
        ("fully trained", report.answer("trained").verdict),
        ("overfitting", report.answer("overfitting").verdict),
        ("bottleneck", report.bottleneck.cause + ("" if measured else " (not measured)")),
        ("time in compute", percent(shares.compute) if measured else NONE),
        ("time in network", percent(shares.network) if measured else NONE),
        ("time for late ranks", percent(shares.straggler) if measured else NONE),
        ("time for data", percent(shares.data) if measured else NONE),
        ("findings", ", ".join(finding.id for finding in report.findings) or "none"),
    ]


def _signature(view: RunView) -> str:
    events = [*view.tests[-1:], best_scored(view)]
    return next((e.bleu_signature for e in events if e and e.bleu_signature), NONE)


def _world(view: RunView) -> list[tuple[str, str]]:
    starts, about = view.last_starts, view.imported
    names = ("processes", "machines", "exchange", "parameters")
    if about is not None:
        counts = (about.processes, about.machines, about.parameters)
        cells = [f"{count:,}" if count else NONE for count in counts]
        return list(zip(names, (*cells[:2], about.trainer, cells[2]), strict=True))
    if not starts:
        return [(name, NONE) for name in names]
    first = starts[0]
    world = (str(first.size), str(len(view.hosts)), first.strategy, f"{first.parameters:,}")
    return list(zip(names, world, strict=True))


def _flat(table: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in table.items():
        if isinstance(value, dict):
            found.update(_flat(value, f"{prefix}{name}."))
        else:
            found[prefix + name] = value
    return found


def _text(value: object) -> str:
    return NONE if value is None else str(value)
