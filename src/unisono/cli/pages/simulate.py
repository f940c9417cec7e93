"""What `unisono simulate` shows: a table, bars, warnings, and how sure it is."""

from collections.abc import Mapping, Sequence
from typing import Any

from unisono.check.simulate import DOUBT, Line, Outlook, SimulatedJob
from unisono.units import amount_of_bytes, duration

BAR = 40


def machine_in_words(options: Mapping[str, Any]) -> str:
    """Return what stands in each machine."""
    device = f"{options['tflops']:g} TFLOP/s" if options["tflops"] else options["gpu"]
    return f"{options['gpus_per_node']} × {device} a machine"


def page_of(
    job: SimulatedJob,
    found: Sequence[Outlook],
    doubtful: Sequence[Sequence[Outlook]],
    options: Mapping[str, Any],
) -> str:
    """Return the page; `doubtful` are the outlooks with slower and with faster devices."""
    return "\n".join(
        [
            *_heading(job, options),
            "",
            *_table(job, found),
            "",
            *_bars(found),
            *_warnings(found),
            "",
            *_doubts(found, doubtful, given=bool(options["tflops"])),
        ]
    )


def _heading(job: SimulatedJob, options: Mapping[str, Any]) -> list[str]:
    source = "as given" if options["tflops"] else "assumed"
    rate = f"{job.flops_per_second / 1e12:.1f} TFLOP/s reached ({source})"
    return [
        f"{options['model']}: {job.parameters:,} parameters, {job.tokens_per_update:,} tokens "
        f"an update, {job.updates:,} updates",
        f"{machine_in_words(options)}, {rate} each, {options['precision']}; "
        f"link {options['link']}",
    ]


def _table(job: SimulatedJob, found: Sequence[Outlook]) -> list[str]:
    header = f"{'machines':>8}  {'exchange':<18}{'step':>10}{'waiting':>9}{'hours':>9}"
    lines = [header + (f"{'money':>11}" if job.price else "") + f"{'speed':>9}"]
    lines += [
        _row(outlook.nodes, line, priced=bool(job.price))
        for outlook in found
        for line in outlook.lines
    ]
    apart = [line for one in found for line in one.lines if line.course.meetings]
    if apart:
        lines.append(
            f"waiting, hours and speed are those of the whole run: with "
            f"{apart[0].exchange.strategy} machines come together "
            f"{apart[0].course.meetings} times"
        )
    return lines


def _row(nodes: int, line: Line, *, priced: bool) -> str:
    bill = line.bill
    money = f"{bill.money:>11,.2f}" if priced else ""
    return (
        f"{nodes:>8}  {line.exchange.name:<18}{duration(line.step.seconds):>10}"
        f"{bill.step.waiting:>9.0%}{bill.hours:>9,.1f}{money}{line.speedup:>9.2f}"
    )


def _bars(found: Sequence[Outlook]) -> list[str]:
    most = max(outlook.advised.speedup for outlook in found)
    lines = ["speed with the exchange that is advised, one machine = 1"]
    for outlook in found:
        speed, name = outlook.advised.speedup, outlook.advised.exchange.name
        bar = "█" * max(1, round(BAR * speed / most))
        enough = f"; {outlook.fewer} would do" if outlook.fewer else ""
        lines.append(f"{outlook.nodes:>8}  {bar} {speed:.2f}  {name}{enough}")
    return lines


def _warnings(found: Sequence[Outlook]) -> list[str]:
    lines = []
    for outlook in found:
        if outlook.exact.warning:
            size = amount_of_bytes(outlook.exact.exchange.card_bytes)
            name, why = outlook.exact.exchange.name, outlook.exact.warning
            lines += ["", f"stop: with {name} ({size} an update), {why}"]
    return lines


def _doubts(
    found: Sequence[Outlook], doubtful: Sequence[Sequence[Outlook]], *, given: bool
) -> list[str]:
    """Say what would be different if the devices were slower or faster."""
    lines = []
    for word, others in zip(("slower", "faster"), doubtful, strict=True):
        pairs = zip(found, others, strict=True)
        changes = [change for pair in pairs for change in _changes(*pair)]
        if changes:
            lines.append(f"if devices computed {DOUBT:.0%} {word}: {'; '.join(changes)}")
    why = "" if given else "the computing is an assumption, not a measurement: "
    if not lines:
        return [f"{why}{DOUBT:.0%} slower or faster would change no advice and no warning"]
    return [f"{why}what depends on it", *lines]


def _changes(outlook: Outlook, other: Outlook) -> list[str]:
    machines = "one machine" if outlook.nodes == 1 else f"{outlook.nodes} machines"
    changes = []
    if outlook.advised.kind != other.advised.kind:
        changes.append(f"{other.advised.exchange.name} for {machines}")
    if outlook.fewer != other.fewer:
        would = f"{other.fewer} would do" if other.fewer else "fewer would not do"
        changes.append(f"{would} instead of {machines}")
    if bool(outlook.exact.warning) != bool(other.exact.warning):
        no = "" if other.exact.warning else "no "
        changes.append(f"{no}stop for {outlook.exact.exchange.name} on {machines}")
    return changes
