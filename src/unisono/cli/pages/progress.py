"""The progress of a run for a person: a bar on a terminal, a line now and then in a log.

Also what programs on several machines print, and how they receive our signals.
"""

import math
import signal
import sys
import textwrap
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

from rich.progress import BarColumn, Progress, TextColumn

from unisono.cli.pages.console import PrintableConsole
from unisono.config.settings import Settings
from unisono.errors import UnisonoError
from unisono.launch.fan_out import FanOut, OutputLine
from unisono.parent_process import hang_up_counts, without_terminal
from unisono.printable import printable
from unisono.records import events
from unisono.units import amount_of_bytes, duration, seconds_of


def show_output(running: FanOut, names: Sequence[str], *, bare: bool = False) -> None:
    """Print the output of all machines, each line after the machine's name, until all end.

    With `bare`, results keep no name, so that another program can read them.
    """
    with forwarding_signals(running.signal):
        for event in running.events():
            name = names[event.node]
            if isinstance(event, OutputLine):
                stream = sys.stderr if event.is_error else sys.stdout
                is_result = bare and not event.is_error
                text = event.text if is_result else f"{name} | {event.text}"
                _print(text, stream)
            elif event.exit_code:
                _print(f"{name} ended with exit code {event.exit_code}", sys.stderr)


def _print(text: str, stream: TextIO) -> None:
    try:
        print(text, file=stream, flush=True)
    except (
        OSError,
        UnisonoError,
    ):  # the reader has left or the terminal is closed: the run goes on
        without_terminal()


@contextmanager
def forwarding_signals(receive: Callable[[int], None]) -> Iterator[None]:
    """Pass signals that ask this process to stop on to `receive`; SIGHUP asks politely."""
    numbers = [signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hang_up_counts() else ())]

    def pass_on(number: int, _: object) -> None:
        receive(signal.SIGTERM if number == signal.SIGHUP else number)

    before = {number: signal.signal(number, pass_on) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


LINE_EVERY_SECONDS = 10.0, 300.0  # in a log: at first, and in a run of hours
LINES_SO_FAR = 30  # a log has about as many when its lines become rarer
WIDE = 132  # columns that the whole line and the bar need
ROOM_FOR_BAR = 100  # columns that a shorter line and the bar need
RECENT_STEPS = 50
SAMPLES_SHOWN = 1  # the report and TensorBoard show all of them

ENDINGS = {
    "max_steps": "reached max_steps",
    "max_epochs": "reached max_epochs",
    "max_time": "reached max_time",
    "patience": "validation has stopped improving",
    "signal": "stopped by a signal; everything is saved, and the same command continues",
}


class LastingConsole(PrintableConsole):
    """A console whose reader may leave and whose terminal may close: the run goes on."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        without_terminal()

    def _write_buffer(self) -> None:
        try:
            super()._write_buffer()
        except BrokenPipeError:
            raise
        except OSError:
            self.on_broken_pipe()


class Screen:
    """Shows the events of the leading process on standard error."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._console = LastingConsole(sys.stderr, highlight=False, soft_wrap=True)
        self._live = self._console.is_terminal and not self._console.is_dumb_terminal
        self._wide = self._console.width >= WIDE
        columns = [TextColumn("[bold]{task.percentage:>3.0f} %")]
        room = self._console.width >= ROOM_FOR_BAR
        bar = [BarColumn(bar_width=20)] if room else []
        text = TextColumn("{task.description}")
        self._bar = Progress(*columns, *bar, text, console=self._console, transient=True)
        self._task = self._bar.add_task("starting", total=1.0)
        self._shown = True
        self._last_line = 0.0
        self._recent: deque[events.StepTaken] = deque(maxlen=RECENT_STEPS)
        self._began = time.monotonic()
        # A moment and the step then: the pace leaves out the first update, which is slower.
        self._paced_from: tuple[float, int] | None = None
        self._updates_per_epoch = 0
        self._seconds_before = 0.0
        self._explained = False

    def __enter__(self) -> "Screen":
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar.live.is_started:
            self._bar.stop()

    def show(self, event: events.AnyEvent) -> None:
        """Show `event`, if this process is the one that shows them."""
        if isinstance(event, events.Started):
            self._shown = event.rank == 0
        if not self._shown:
            return
        if isinstance(event, events.Started):
            self._show_start(event)
        elif isinstance(event, events.StepTaken):
            self._show_step(event)
        else:
            if isinstance(event, events.RolledBack):
                self._paced_from = None
            self._say(_sentence(event))
            self._explain(event)

    def _explain(self, event: events.AnyEvent) -> None:
        """Explain BLEU once: the signature is too long for the line of every validation."""
        if isinstance(event, events.Validated) and event.bleu >= 0 and not self._explained:
            self._explained = True
            interval = "" if event.bleu_low < 0 else "± is half of its 95 % interval; "
            signature = event.bleu_signature or "not recorded"
            self._say(f"BLEU: {interval}signature {signature}")

    def tell(self, text: str) -> None:
        """Show what the start is waiting for, on any process."""
        self._say(text)

    def _show_start(self, event: events.Started) -> None:
        self._began = time.monotonic()
        self._paced_from = None
        self._updates_per_epoch = event.updates_per_epoch
        self._seconds_before = event.seconds
        device = f"{event.gpu} in {event.precision}" if event.gpu else event.device
        where = f"{event.size} process{'es' if event.size > 1 else ''} on {device}"
        if event.size > 1 and event.interface:
            where += f" over {event.fabric or event.interface} ({event.address})"
        self._say(
            f"training {event.parameters:,} parameters on {where}, "
            f"{event.updates_per_epoch:,} updates per epoch, in {self._settings.run}"
        )
        for source in event.sources:
            tag = f"{source.tag} " if source.tag else ""
            self._say(
                f"{100 * source.share:5.1f} % from {tag}{source.name}: {source.pairs:,} pairs, "
                f"each used {source.times:.3g} times per epoch"
            )
        if event.checkpoint:
            self._say(f"continuing from checkpoint {event.checkpoint}")
        if self._live:
            self._bar.start()

    def _show_step(self, event: events.StepTaken) -> None:
        self._recent.append(event)
        self._paced_from = self._paced_from or (time.monotonic(), event.step)
        share = self._share(event)
        if self._live:
            text = self._line(event, whole=self._wide)
            self._bar.update(self._task, description=text, completed=share)
        if self._line_is_due(event.step):
            self._say(f"{100 * share:3.0f} %  {self._line(event, whole=True)}")
            self._last_line = time.monotonic()
        if event.skipped:
            self._say(f"step {event.step} was skipped: its loss or gradient is not finite")

    def _line_is_due(self, step: int) -> bool:
        every, now = self._settings.train.show_every_steps, time.monotonic()
        if every or self._live:
            return bool(every) and step % every == 0
        least, most = LINE_EVERY_SECONDS
        pause = min(max(least, (now - self._began) / LINES_SO_FAR), most)
        return now - self._last_line >= pause

    def _line(self, event: events.StepTaken, *, whole: bool) -> str:
        """Return the state of training in a line of 80 columns, or in a `whole`, longer one."""
        seconds = sum(step.seconds for step in self._recent) / len(self._recent)
        tokens = sum(step.target_tokens for step in self._recent) / len(self._recent)
        left = self._seconds_left(event)
        parts = [f"step {event.step:,}", f"loss {event.loss:.3f}"]
        if whole:
            parts.append(f"ppl {math.exp(min(event.loss, 30.0)):.1f}")
        parts.append(f"lr {event.learning_rate:.2e}")
        parts.append(f"{tokens / seconds:,.0f} {'target ' if whole else ''}tokens/s")
        if whole:
            parts.append(f"{duration(seconds)}/step")
        return "  ".join([*parts, *([f"{duration(left)} left"] if left else [])])

    def _share(self, event: events.StepTaken) -> float:
        limits, shares = self._settings.train, [0.0]
        if limits.max_steps:
            shares.append(event.step / limits.max_steps)
        if limits.max_epochs and self._updates_per_epoch:
            shares.append(event.step / (limits.max_epochs * self._updates_per_epoch))
        if limits.max_time:
            taken = self._seconds_before + time.monotonic() - self._began
            shares.append(taken / seconds_of(limits.max_time))
        return min(1.0, max(shares))

    def _seconds_left(self, event: events.StepTaken) -> float:
        limits, now = self._settings.train, time.monotonic()
        moment, step = self._paced_from or (now, event.step)
        goals = [limits.max_steps, limits.max_epochs * self._updates_per_epoch]
        ends = []
        if event.step > step:
            pace = (now - moment) / (event.step - step)
            ends = [(goal - event.step) * pace for goal in goals if goal]
        if limits.max_time:
            taken = self._seconds_before + now - self._began
            ends.append(seconds_of(limits.max_time) - taken)
        return max(0.0, min(ends, default=0.0))

    def _say(self, text: str) -> None:
        if text:
            shown = "\n".join(printable(line) for line in text.split("\n"))
            self._console.print(shown, markup=False)


def sample_text(sample: events.Sample) -> str:
    """Return a source sentence, its translation and its reference, in three lines."""
    texts = sample.source, sample.translation, sample.reference
    source, translation, reference = (textwrap.shorten(text, 300) for text in texts)
    mark = "matches the reference" if translation == reference else f"reference: {reference}"
    return f"  {source}\n    → {translation}\n      ({mark})"


def _bleu(event: events.Validated | events.Tested) -> str:
    """Return BLEU with half of its 95 % interval."""
    if event.bleu_low < 0:
        return f"{event.bleu:.2f}"
    return f"{event.bleu:.2f} ± {(event.bleu_high - event.bleu_low) / 2:.2f}"


def _found(event: events.Found) -> str:
    """Return a finding and its advice in one line."""
    if event.over:
        return ""
    return printable(f"found at step {event.step:,}: {event.summary} {event.advice}".strip())


def _validation(event: events.Validated) -> str:
    bleu = f"  BLEU {_bleu(event)}" if event.bleu >= 0 else ""
    best = "  (best so far)" if event.best else ""
    took = duration(event.seconds)
    return (
        f"validation at step {event.step:,}: loss {event.loss:.4f}{bleu}{best}  in {took}"
        + "".join("\n" + sample_text(sample) for sample in event.samples[:SAMPLES_SHOWN])
    )


def _test(event: events.Tested | events.Adapted) -> str:
    if isinstance(event, events.Adapted):
        return (
            f"{event.test} test set: BLEU {event.bleu_start:.2f} at the start, "
            f"{event.bleu_run:.2f} now ({event.low:+.2f} to {event.high:+.2f})"
        )
    return (
        f"test set, best checkpoint (step {event.step:,}): BLEU {_bleu(event)}  "
        f"{event.bleu_signature}"
    )


def _sentence(event: events.AnyEvent) -> str:
    if isinstance(event, events.Validated):
        return _validation(event)
    if isinstance(event, events.Saved):
        size, took = amount_of_bytes(event.bytes), duration(event.seconds)
        return f"saved {event.name} ({size}) in {took}"
    if isinstance(event, events.Warned):
        return f"warning: {event.message}"
    if isinstance(event, events.Chose | events.Found):
        return event.message if isinstance(event, events.Chose) else _found(event)
    if isinstance(event, events.RolledBack):
        return f"warning: at step {event.step:,} {event.message}"
    if isinstance(event, events.Tested | events.Adapted):
        return _test(event)
    if isinstance(event, events.Ended):
        return f"ended at step {event.step:,}: {ENDINGS.get(event.reason, event.reason)}"
    return ""
