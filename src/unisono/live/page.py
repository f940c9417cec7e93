"""The page of `unisono watch`: one screen about a run in progress."""

import math
from collections.abc import Sequence
from pathlib import Path

from rich.console import Group, RenderableType
from rich.text import Text

from unisono.diagnose.evidence.curve import is_finite
from unisono.diagnose.evidence.scores import bleu_note, bleu_words
from unisono.diagnose.wording import percent
from unisono.live.machines import MachineNow, words
from unisono.live.window import LANE_CAUSES, CurrentState, RankTimes
from unisono.printable import printable
from unisono.records.view import RunView
from unisono.units import duration

BLOCKS = "▁▂▃▄▅▆▇█"
# Each cause also has a character of its own: not every terminal has colours.
MARKS = {
    "compute": ("█", "green"),
    "network": ("▓", "red"),
    "waiting": ("▒", "yellow"),
    "data": ("░", "blue"),
    "other": ("·", "dim"),
}
STATE_COLOURS = {"running": "green", "finished": "cyan", "stopped": "yellow", "failed": "red"}
NARROW = 40
MOST_LANES = 16
MOST_FINDINGS = 5
BETWEEN = "  "


def page(
    run: Path,
    view: RunView,
    outline: Sequence[tuple[int, float]],
    now: CurrentState,
    width: int,
) -> RenderableType:
    """Return everything as lines for a terminal of so many columns."""
    lines = [_title(run, now, width), _progress(now, width), Text()]
    lines += [_numbers(view, now), *_curve(outline, width), *_validation(view)]
    if now.lanes:
        lines += [Text(), _legend(), *_bars(now.lanes, width)]
    if now.machines:
        lines += [Text(), *_machines(now.machines, width)]
    sample = _sample(view)
    for line in (*lines, *sample):
        line.truncate(width, overflow="ellipsis")
    costs = [("cost", now.cost), ("power", now.energy)]
    said = [_line(name, words, "") for name, words in costs if words]
    said += [_line("now", now.verdict, "bold")] if now.verdict else []
    said += [_line("found", one.summary, "bold yellow") for one in now.findings[:MOST_FINDINGS]]
    said += [_line("lost", event.message, "bold red") for event in view.losses[-3:]]
    said += [_line("note", event.message, "bold yellow") for event in view.warnings[-3:]]
    note = bleu_note(view)
    small = [Text(), Text(printable(note), "dim")] if note else []
    return Group(*lines, *([Text()] if said else []), *said, *sample, *small)


def sparkline(values: Sequence[float], width: int) -> str:
    """Return a curve of one line; what is not a number is a gap."""
    if not values:
        return ""
    count = min(width, len(values))
    edges = [round(i * len(values) / count) for i in range(count + 1)]
    means = [_mean(values[a:b]) for a, b in zip(edges, edges[1:], strict=False)]
    known = [value for value in means if math.isfinite(value)]
    if not known:
        return ""
    low, high = min(known), max(known)
    scale = (len(BLOCKS) - 1) / (high - low) if high > low else 0.0
    return "".join(
        BLOCKS[round((value - low) * scale)] if math.isfinite(value) else " " for value in means
    )


def bar(shares: dict[str, float], width: int) -> list[tuple[str, str]]:
    """Return the pieces of a bar, in the order of CAUSES; they fill `width` exactly."""
    total, done, at, pieces = sum(shares.values()) or 1.0, 0.0, 0, []
    for cause in LANE_CAUSES:
        done += shares.get(cause, 0.0) / total
        until = round(done * width)
        mark, colour = MARKS[cause]
        pieces.append((mark * (until - at), colour))
        at = until
    return pieces


def _mean(values: Sequence[float]) -> float:
    known = [value for value in values if math.isfinite(value)]
    return sum(known) / len(known) if known else math.nan


def _title(run: Path, now: CurrentState, width: int) -> Text:
    name, room = printable(str(run)), max(10, width - len(now.state) - 2)
    shown = name if len(name) <= room else f"…{name[1 - room :]}"
    return Text.assemble(
        (shown, "bold"), "  ", (now.state, STATE_COLOURS.get(now.state, "dim"))
    )


def _progress(now: CurrentState, width: int) -> Text:
    left = f"  {duration(now.seconds_left)} left" if now.seconds_left else ""
    if not now.updates:
        return Text(f"step {now.step:,}{left}")
    share = min(1.0, now.step / now.updates)
    words = f" {percent(share)}  step {now.step:,} of {now.updates:,}{left}"
    room = max(10, min(60, width - len(words)))
    full = round(share * room)
    return Text.assemble(("━" * full, "green"), ("─" * (room - full), "dim"), words)


def _numbers(view: RunView, now: CurrentState) -> Text:
    if not view.steps:
        return Text("no update yet", "dim")
    last, each = view.steps[-1], duration(now.seconds_per_step)
    return Text(
        f"loss  {last.loss:.4f}   rate {last.learning_rate:.3g}   "
        f"{now.tokens_per_second:,.0f} target tokens/s   {each} a step"
    )


def _curve(outline: Sequence[tuple[int, float]], width: int) -> list[Text]:
    drawn = sparkline([loss for _, loss in outline], max(NARROW, width - 8) - 8)
    return [Text.assemble("      ", (drawn, "cyan"))] if len(drawn) > 1 else []


def _validation(view: RunView) -> list[Text]:
    if not view.validations:
        return []
    last = view.validations[-1]
    told = [event for event in view.validations if is_finite(event.loss)] or [last]
    best = min(told, key=lambda event: event.loss)
    bleu = f", BLEU {bleu_words(last)}" if last.bleu >= 0 else ""
    return [
        Text(
            f"valid {last.loss:.4f}{bleu} at step {last.step:,}; "
            f"best {best.loss:.4f} at step {best.step:,}"
        )
    ]


def _legend() -> Text:
    words = Text("time  ")
    for cause in LANE_CAUSES:
        words.append(MARKS[cause][0], MARKS[cause][1]).append(f" {cause}  ")
    return words


def _bars(lanes: Sequence[RankTimes], width: int) -> list[Text]:
    names = [f"rank {lane.rank} {printable(lane.host)}" for lane in lanes]
    room = min(24, max(map(len, names)))
    lines = []
    for name, lane in list(zip(names, lanes, strict=True))[:MOST_LANES]:
        pieces = bar(lane.shares, max(10, width - room - 18))
        line = Text(f"{name[:room]:<{room}} ").append_tokens(pieces)
        lines.append(line.append(f" {duration(lane.seconds)}"))
    if len(lanes) > MOST_LANES:
        lines.append(Text(f"and {len(lanes) - MOST_LANES} more", "dim"))
    return lines


def _machines(machines: Sequence[MachineNow], width: int) -> list[Text]:
    """Return one line for each machine, cut where the terminal ends."""
    names = [printable(machine.host) for machine in machines]
    room = min(24, max(map(len, names)))
    lines = []
    for name, machine in list(zip(names, machines, strict=True))[:MOST_LANES]:
        line = Text(f"{name[:room]:<{room}}")
        for said in words(machine):
            if len(line) + len(BETWEEN) + len(said) <= width:
                line.append(BETWEEN + printable(said))
        lines.append(line)
    if len(machines) > MOST_LANES:
        lines.append(Text(f"and {len(machines) - MOST_LANES} more", "dim"))
    return lines


def _line(name: str, text: str, style: str) -> Text:
    return Text.assemble((f"{name:<6}", style), printable(text))


def _sample(view: RunView) -> list[Text]:
    told = [event for event in view.validations if event.samples]
    if not told:
        return []
    sample = told[-1].samples[0]
    return [
        Text(),
        Text(printable(sample.source), "dim"),
        Text(f"→ {printable(sample.translation)}"),
        Text(f"  {printable(sample.reference)}", "dim"),
    ]
