"""The parts of the page: each is a piece of HTML with a name, drawn when it is due.

Words and drawings are those of the report and of `unisono watch`. Whatever comes from a run is
escaped by the templates.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from jinja2.environment import TemplateModule

from unisono.diagnose.answers.duration import answer_duration
from unisono.diagnose.diagnosis import judge
from unisono.diagnose.evidence.curve import loss_curve, lowest
from unisono.diagnose.evidence.scores import best_scored, bleu_words
from unisono.diagnose.evidence.spending import energy_so_far, spending_words
from unisono.diagnose.report import Finding
from unisono.diagnose.wording import percent
from unisono.live.machines import machines_now, words
from unisono.live.window import findings_of, recent_case, verdict_finding
from unisono.live_page.followed_run import FollowedRun
from unisono.live_page.live_charts import live_charts
from unisono.records.events import Found
from unisono.report.charts import drawn
from unisono.report.comparison import HUES, over_steps, over_time
from unisono.report.drawing import Drawing
from unisono.report.facts import (
    SEVERITIES,
    STATE_TONES,
    Tile,
    TimeSlice,
    about,
    bottleneck_words,
    samples_over_time,
    slices,
    spaced,
)
from unisono.report.page import page_environment
from unisono.report.panel import Span, step_ticks
from unisono.report.panels import parts_panel
from unisono.report.step_bars import BAR_PARTS, Bar, node_bars
from unisono.units import duration

NO_VALUE = "–"
MOST_SAID = 30
PAGE_PARTS = ("head", "now", "machines", "findings", "course", "over", "translations",
              "charts", "answers")  # fmt: skip


@cache
def templates() -> TemplateModule:
    """Return the macros of all parts, parsed once."""
    environment = page_environment(Path(__file__).parent)
    return environment.get_template("parts.html.jinja").module


def _rendered(macro: str, *values: object) -> str:
    return str(getattr(templates(), macro)(*values)).strip()


@dataclass(frozen=True)
class Way:
    """How far a run is, in words. `share` is None if nothing says when it ends."""

    state: str
    tone: str
    way: str
    left: str
    share: float | None
    ending: str


def head(run: FollowedRun) -> dict[str, str]:
    """Return what changes all the time: progress, figures, and what the machines do."""
    is_over = run.progress.state in ("finished", "stopped")
    now = () if is_over else machines_now(run.view, run.now)
    return {
        "head": _rendered("head", _way(run), _tiles(run)),
        "machines": _rendered("machines", [(one.host, words(one)) for one in now]),
    }


def _way(run: FollowedRun) -> Way:
    now = run.progress
    share = min(1.0, now.step / now.updates) if now.updates else None
    way = f"step {now.step:,}"
    if share is not None:
        way += f" of {now.updates:,}, {percent(share)}"
    left = f"{duration(now.seconds_left)} left" if now.seconds_left else ""
    tone = STATE_TONES.get(now.state, "unknown")
    return Way(now.state, tone, way, left, share, _ending(run))


def _ending(run: FollowedRun) -> str:
    """Say how a run ended, and what to do; "" while it goes on."""
    if not run.is_over:
        return ""
    told = answer_duration(run.case)
    return f"{told.summary} {told.advice or ''}".strip()


def _tiles(run: FollowedRun) -> list[Tile]:
    view, now = run.view, run.progress
    last = view.steps[-1] if view.steps else None
    curve, best = loss_curve(view.validations), best_scored(view)
    step, loss = lowest(curve) if curve else (0, 0.0)
    tokens = f"{now.tokens_per_second:,.0f}" if last else NO_VALUE
    test = f", test {bleu_words(view.tests[-1])}" if view.tests else ""
    return [
        Tile("training loss", f"{last.loss:.3f}" if last else NO_VALUE,
             f"rate {last.learning_rate:.3g}" if last else "no update yet"),
        Tile("best validation loss", f"{loss:.3f}" if curve else NO_VALUE,
             f"step {step:,}" if curve else "not validated yet"),
        Tile("best BLEU", bleu_words(best) if best else NO_VALUE,
             f"step {best.step:,}{test}" if best else "not measured"),
        Tile("a step", duration(now.seconds_per_step) if last else NO_VALUE,
             f"epoch {last.epoch:,}" if last and last.epoch else ""),
        Tile("target tokens", tokens, "a second"),
        _money(run),
    ]  # fmt: skip


def _money(run: FollowedRun) -> Tile:
    spent, energy = run.spent, energy_so_far(run.case, run.joules)
    if spent is None:
        missing = "energy of the GPUs" if energy else "no price in the settings"
        return Tile("cost", energy or NO_VALUE, missing)
    money, currency, hourly = spent
    more = f", {energy}" if energy else ""
    return Tile("cost so far", f"{money:,.2f} {currency}", f"{hourly:,.2f} an hour{more}")


def state(run: FollowedRun) -> dict[str, str]:
    """Return what holds the run up now, and what was found."""
    case = recent_case(run.view, run.now)
    first = verdict_finding(case) if case else None
    found = findings_of(case) if case else ()
    bars = node_bars(case.run, case.ledger) if case else []
    keys = [(name, words) for name, words in BAR_PARTS.items()]
    title = "What held it up last" if run.is_over else "What holds it up now"
    said = [_sentence(first.summary), first.advice] if first else ["", ""]
    now = [title, *said, bars, keys]
    return {
        "now": _rendered("now_section", *now),
        "findings": _rendered("findings", [_card(one) for one in found], _said(run)),
    }


def _sentence(words: str) -> str:
    return words[:1].upper() + words[1:]


@dataclass(frozen=True)
class Card:
    """A finding as the page shows it."""

    name: str
    severity: str
    tone: str
    summary: str
    advice: str


def _card(found: Finding) -> Card:
    tone = SEVERITIES.get(found.severity, "plain")
    return Card(spaced(found.id), found.severity, tone, found.summary, found.advice)


@dataclass(frozen=True)
class Saying:
    """What the run itself announced, the latest first."""

    when: str
    words: str
    tone: str


def _said(run: FollowedRun) -> list[Saying]:
    view = run.view
    told = [(one.time, one.step, *_words_of(one)) for one in view.found]
    told += [(one.time, one.step, one.message, "bad") for one in view.losses]
    told += [(one.time, one.step, one.message, "care") for one in view.warnings]
    return [
        Saying(f"step {step:,}", said, tone)
        for _, step, said, tone in sorted(told, reverse=True)[:MOST_SAID]
    ]


def _words_of(found: Found) -> tuple[str, str]:
    if found.over:
        return f"no longer holds: {found.summary}", "soft"
    return found.summary, SEVERITIES.get(found.severity, "plain")


def whole_run(run: FollowedRun) -> dict[str, str]:
    """Return where the time of the whole run went, and the eleven answers, so far."""
    case = run.whole()
    found = judge(case)
    time = TimeSpent(
        bars=tuple(node_bars(case.run, case.ledger)),
        slices=tuple(slices(found)) if case.ledger.rows else (),
        words=bottleneck_words(found),
        cost=tuple(spending_words(found.cost)) if found.cost else (),
        parts=drawn([parts_panel(case.ledger)], run.span),
        span=run.span,
        ticks=tuple(step_ticks(run.span)),
        how=_how_many(len(case.ledger.rows), case.ledger.updates),
    )
    return {
        "over": _rendered("over_the_run", time),
        "answers": _rendered("answers", found.headline, found.answers, time.how),
    }


@dataclass(frozen=True)
class TimeSpent:
    """Where the time of a run went until now. `how` says which updates were looked at."""

    bars: tuple[Bar, ...]
    slices: tuple[TimeSlice, ...]
    words: str
    cost: tuple[str, ...]
    parts: tuple[Drawing, ...]
    span: Span
    ticks: tuple[float, ...]
    how: str


def _how_many(looked_at: int, updates: int) -> str:
    if looked_at == updates:
        return ""
    return (
        f"From {looked_at:,} of {updates:,} updates, evenly spread; what the machines did from "
        "the latest ones. `unisono report` looks at all."
    )


def charts(run: FollowedRun) -> dict[str, str]:
    """Return all charts of a run, and its latest translations."""
    made = live_charts(run)
    return {
        "about": _rendered("about", about(run.view)),
        "course": _rendered("course", made),
        "charts": _rendered("machine_charts", made),
        "translations": _rendered("translations", samples_over_time(run.view)),
    }


def trouble(error: Exception) -> str:
    """Say that the runs cannot be read, and why."""
    return _rendered("trouble", str(error))


CELLS = ("step", "left", "loss", "validation", "BLEU", "tokens/s", "cost")


@dataclass(frozen=True)
class RunRow:
    """A run in the table of all runs."""

    name: str
    hue: str
    state: str
    tone: str
    cells: tuple[str, ...]


def runs_table(runs: Sequence[FollowedRun], names: Sequence[str]) -> dict[str, str]:
    """Return the table of several runs."""
    rows = [_row(run, name, n) for n, (run, name) in enumerate(zip(runs, names, strict=True))]
    return {"runs": _rendered("runs", rows, CELLS)}


def _row(run: FollowedRun, name: str, number: int) -> RunRow:
    way, tiles = _way(run), _tiles(run)
    loss, validation, bleu, _, tokens, cost = (tile.value for tile in tiles)
    left = way.left.removesuffix(" left") or NO_VALUE
    cells = (f"{run.progress.step:,}", left, loss, validation, bleu, tokens, cost)
    return RunRow(name, HUES[number % len(HUES)], way.state, way.tone, cells)


def comparison(runs: Sequence[FollowedRun], names: Sequence[str]) -> dict[str, str]:
    """Return the charts that compare several runs."""
    views = [run.view for run in runs]
    updates, spans = [run.updates for run in runs], [run.span for run in runs]
    stacks = [
        ("Step by step", "What the runs had learnt at equal steps.",
         over_steps(views, names, updates, spans)),
        ("Against the clock", "What the runs had learnt after the same time, validations "
         "included. Pauses between two starts of a run do not count.", over_time(views, names)),
    ]  # fmt: skip
    return {"comparison": _rendered("comparison", stacks)}
