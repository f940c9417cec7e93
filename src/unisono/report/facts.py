"""The facts of the page besides the answers: figures, time, corpus, samples, settings."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from unisono.diagnose.bottleneck import IN_A_STEP
from unisono.diagnose.evidence.run_files import CorpusFacts, corpus_facts
from unisono.diagnose.evidence.scores import best_scored, bleu_words
from unisono.diagnose.report import Answer, Report
from unisono.diagnose.wording import count, listing, percent
from unisono.records.view import Imported, RunView
from unisono.units import amount_of_bytes, duration

CAUSES = {
    "compute": "arithmetic",
    "network": "exchange",
    "straggler": "waiting for a straggler",
    "data": "waiting for data",
    "evaluation": "validation and test",
    "checkpoint": "checkpoints",
    "other": "other, and starting up",
}

SEVERITIES = {"info": "plain", "warning": "care", "error": "bad"}

STATE_TONES = {"finished": "good", "stopped": "care", "failed": "bad", "running": "plain"}
_TONES = {
    "duration": STATE_TONES,
    "trained": {"yes": "good", "no": "care", "diverged": "bad"},
    "overfitting": {"yes": "bad", "no": "good"},
    "devices": {"busy": "good", "waiting": "bad"},
    "network": {"bottleneck": "bad", "not_bottleneck": "good"},
}


def tone(answer: Answer) -> str:
    """Return how to show a verdict: good, bad, care, plain or unknown."""
    if answer.verdict == "unknown":
        return "unknown"
    return _TONES.get(answer.id, {}).get(answer.verdict, "plain")


def spaced(name: str) -> str:
    """Write an id as words: "not_used" as "not used"."""
    return name.replace("_", " ")


MOST_SAMPLES = 6
LONGEST_TEXT = 400
LONGEST_LISTING = 20_000


@dataclass(frozen=True)
class Tile:
    """A figure at the head of the page."""

    name: str
    value: str
    more: str = ""


@dataclass(frozen=True)
class TimeSlice:
    """A part of the time bar."""

    cause: str
    name: str
    share: float
    percent: str

    @property
    def label(self) -> str:
        return f"{self.name} {self.percent}"


@dataclass(frozen=True)
class SampleOverTime:
    """A sentence, its reference, and pairs of step and translation."""

    source: str
    reference: str
    translations: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class SplitRow:
    """A line of the table of sets."""

    name: str
    cells: tuple[str, ...]


@dataclass(frozen=True)
class DropRow:
    """A line of the table of what was dropped."""

    reason: str
    count: str
    share: str
    example: tuple[str, str] | None


@dataclass(frozen=True)
class CorpusTables:
    """The training set in two tables."""

    source_language: str
    target_language: str
    splits: tuple[SplitRow, ...]
    drops: tuple[DropRow, ...]


def about(run: RunView) -> list[str]:
    """Return what was trained, on which machines and when, in a few words each."""
    words = []
    facts = corpus_facts(run.corpus)
    if facts:
        words.append(f"{facts.source_language} → {facts.target_language}")
    starts = run.last_starts
    if run.imported is not None:
        return words + _about_imported(run, run.imported)
    if starts:
        devices = listing(sorted({start.device.split(":")[0] for start in starts}))
        words += [
            f"{starts[0].parameters:,} parameters",
            f"{count(starts[0].size, 'process', 'processes')} ({devices}) on "
            f"{listing(list(run.hosts))}",
            f"started {_moment(min(start.time for start in run.starts))}",
        ]
    return words


def _about_imported(run: RunView, about: Imported) -> list[str]:
    words = [about.trainer]
    if about.parameters:
        words.append(f"{about.parameters:,} parameters")
    hosts = [host for host in run.hosts if host]
    if about.processes:
        where = f" on {listing(hosts)}" if hosts else ""
        words.append(f"{count(about.processes, 'process', 'processes')}{where}")
    if about.clock and run.seen:
        # The zone of that clock is not known.
        words.append(f"started {_moment(min(run.seen)).removesuffix(' UTC')}")
    return words


def tiles(report: Report, run: RunView) -> list[Tile]:
    """Return the six figures at the head of the page."""
    took, step = report.answer("duration").values, report.answer("step_time").values
    learnt = report.answer("overfitting").values
    best = best_scored(run)
    epochs = f"epoch {run.steps[-1].epoch:,}" if run.steps and run.steps[-1].epoch else ""
    tokens = step.get("target_tokens_per_second")
    loss = learnt.get("best_loss")
    return [
        Tile("time", duration(took["seconds"]) if took.get("seconds") else "–", _starts(took)),
        Tile("updates", count(took.get("updates", 0)), epochs),
        Tile(
            "best validation loss",
            "–" if loss is None else f"{loss:.3f}",
            f"step {learnt['best_step']:,}" if loss is not None else "not validated",
        ),
        Tile(
            "best BLEU",
            bleu_words(best) if best else "–",
            _bleu(best.step if best else None, run),
        ),
        Tile(
            "mean step",
            duration(step["mean_seconds"]) if step else "–",
            f"median {duration(step['median_seconds'])}" if step else "",
        ),
        Tile(
            "target tokens",
            f"{tokens:,.0f}" if tokens else "–",
            "a second" if tokens or run.imported is None else "not recorded",
        ),
    ]


def slices(report: Report) -> list[TimeSlice]:
    """Return the time bar, in a fixed order; nothing if the time was not measured."""
    if report.bottleneck.measured is False:
        return []
    shares = {cause: getattr(report.bottleneck.shares, cause) for cause in CAUSES}
    return [TimeSlice(cause, CAUSES[cause], s, percent(s)) for cause, s in shares.items()]


def bottleneck_words(report: Report) -> str:
    """Say how long an update would take without its largest cost; "" if that is arithmetic."""
    found = report.bottleneck
    if found.measured is False:
        why = "Not measured: the records of this imported run do not say where the time went."
        computed = " By arithmetic, the exchange over the network set the pace."
        return why + computed * (found.cause == "network")
    if found.without_it_seconds_per_step is None:
        return ""
    who = f" (rank {found.culprit})" if found.culprit is not None else ""
    cost = (
        f"The largest cost besides arithmetic is {CAUSES[found.cause]}{who}: "
        f"{percent(found.share)} of the time."
    )
    if found.cause not in IN_A_STEP:
        return cost
    seconds = duration(found.without_it_seconds_per_step)
    return f"{cost} Without it an update would take {seconds}."


def samples_over_time(run: RunView) -> list[SampleOverTime]:
    """Return a few sentences with their first, middle and last translation."""
    steps = sorted(step for step, samples in run.samples.items() if samples)
    if not steps:
        return []
    chosen = sorted({steps[0], steps[len(steps) // 2], steps[-1]})
    by_step = {step: {s.source: s.translation for s in run.samples[step]} for step in chosen}
    return [
        SampleOverTime(
            source=_clipped(sample.source),
            reference=_clipped(sample.reference),
            translations=tuple(
                (f"{step:,}", _clipped(by_step[step][sample.source]))
                for step in chosen
                if sample.source in by_step[step]
            ),
        )
        for sample in run.samples[steps[-1]][:MOST_SAMPLES]
    ]


def corpus_tables(run: RunView) -> CorpusTables | None:
    """Return the training set as tables, or None without a manifest."""
    facts = corpus_facts(run.corpus)
    if facts is None:
        return None
    drops = sorted(facts.dropped.items(), key=lambda item: -item[1].count)
    return CorpusTables(
        source_language=facts.source_language,
        target_language=facts.target_language,
        splits=tuple(_split_row(facts, name) for name in facts.splits),
        drops=tuple(
            DropRow(
                reason,
                count(drop.count),
                percent(drop.count / facts.read_pairs) if facts.read_pairs else "–",
                (_clipped(drop.examples[0][0], 90), _clipped(drop.examples[0][1], 90))
                if drop.examples
                else None,
            )
            for reason, drop in drops
            if drop.count
        ),
    )


def _split_row(facts: CorpusFacts, name: str) -> SplitRow:
    split, inputs = facts.splits[name], facts.inputs_of(name)
    lines = sum(entry.source.lines for entry in inputs)
    size = sum(entry.source.size + entry.target.size for entry in inputs)
    before = (count(lines), amount_of_bytes(size)) if inputs else ("–", "–")
    after = (split.pairs, split.source_tokens, split.target_tokens)
    return SplitRow(name, (*before, *(count(number) for number in after)))


def settings_text(config: dict[str, Any]) -> str:
    """Return the configuration, one setting a line."""
    lines = []
    for name, value in config.items():
        if isinstance(value, dict):
            lines += ["", f"[{name}]"] + [f"{key} = {_plain(v)}" for key, v in value.items()]
        else:
            lines.insert(0, f"{name} = {_plain(value)}")
    return _clipped("\n".join(lines).strip("\n"), LONGEST_LISTING) or "not recorded"


def environment_text(environment: dict[str, Any]) -> str:
    """Return the environment as readable JSON."""
    if not environment:
        return "environment.json is not in the run directory"
    text = json.dumps(environment, indent=2, ensure_ascii=False)
    return _clipped(text, LONGEST_LISTING)


def _plain(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _clipped(text: str, longest: int = LONGEST_TEXT) -> str:
    return text if len(text) <= longest else text[:longest] + " …"


def _moment(time: float) -> str:
    return f"{datetime.fromtimestamp(time, UTC):%Y-%m-%d %H:%M} UTC"


def _starts(took: dict[str, Any]) -> str:
    if not took:
        return ""
    left = took.get("seconds_left")
    if took.get("starts") is None:
        return "recorded"
    if left is not None:
        return f"{duration(left)} to go"
    return "in one session" if not took["restarts"] else f"over {took['starts']} starts"


def _bleu(step: int | None, run: RunView) -> str:
    words = f"step {step:,}" if step is not None else "not measured"
    return f"{words}, test {bleu_words(run.tests[-1])}" if run.tests else words
