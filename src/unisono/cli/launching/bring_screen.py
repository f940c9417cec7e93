"""How far each machine is to which something is brought: bars on a terminal, else lines."""

import sys
import threading
import time
from collections import defaultdict, deque
from collections.abc import Sequence

from rich.live import Live
from rich.text import Text

from unisono.cli.pages.progress import LastingConsole
from unisono.launch.bring.bring import BringWatcher
from unisono.launch.bring.machine import BringMachine
from unisono.units import amount_of_bytes, duration

SAY_SECONDS = 5.0  # between two lines about a machine in a log
RATE_SECONDS = 5.0  # a rate over less would jump
BAR = 20
ROOM_FOR_BAR = 100  # columns


class BringScreen(BringWatcher):
    """Tells on standard error what happens, and how far all machines are until it leaves."""

    def __init__(self, hosts: Sequence[str]) -> None:
        self._width = max(map(len, hosts))
        self._said_at = time.monotonic()
        self._shown: dict[str, str] = {}
        self._arrived: dict[str, deque[tuple[float, int]]] = defaultdict(deque)
        self._printing = threading.Lock()
        self._console = LastingConsole(sys.stderr, highlight=False, soft_wrap=True)
        live = self._console.is_terminal and not self._console.is_dumb_terminal
        bars = Live(console=self._console, auto_refresh=False, transient=True)
        self._live = bars if live else None

    def __enter__(self) -> "BringScreen":
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def say(self, text: str) -> None:
        """Say something about the whole."""
        with self._printing:
            self._console.print(Text(text))

    def tell(self, host: str, text: str) -> None:
        """Say something about a machine."""
        first, *others = text.split("\n")
        lines = [f"{host:{self._width}} | {first}"]
        self.say("\n".join([*lines, *(f"{'':{self._width}} | {line}" for line in others)]))

    def show(self, machines: Sequence[BringMachine]) -> None:
        """Show how far all machines are: on a terminal at once, in a log now and then."""
        now = time.monotonic()
        for machine in machines:
            self._note(machine, now)
        if self._live is not None:
            with self._printing:
                self._live.start()
                self._live.update(Text("\n").join(map(self._bar, machines)), refresh=True)
        elif now - self._said_at >= SAY_SECONDS:
            self._said_at = now
            for machine in machines:
                text = self._words(machine)
                if self._shown.get(machine.host) != text:
                    self._shown[machine.host] = text
                    self.tell(machine.host, text)

    def _note(self, machine: BringMachine, now: float) -> None:
        known, arrived = self._arrived[machine.host], machine.progress.arrived_bytes
        if not arrived:
            known.clear()  # the rate begins with what comes, not with what went before
        known.append((now, arrived))
        while len(known) > 2 and known[1][0] <= now - RATE_SECONDS:
            known.popleft()

    def _bar(self, machine: BringMachine) -> Text:
        line = Text(f"{machine.host:{self._width}} | ", no_wrap=True)
        needed, arrived = machine.progress.needed_bytes, machine.progress.arrived_bytes
        if 0 < arrived < needed and self._console.width >= ROOM_FOR_BAR:
            full = round(BAR * arrived / needed)
            line.append("━" * full, "green").append("─" * (BAR - full), "dim").append(" ")
        line.append(self._words(machine))
        line.truncate(self._console.width - 1, overflow="ellipsis")
        return line

    def _words(self, machine: BringMachine) -> str:
        state = machine.progress
        arrived, needed = state.arrived_bytes, state.needed_bytes
        if arrived >= needed or not arrived:
            return state.doing
        share = f"{amount_of_bytes(arrived)} of {amount_of_bytes(needed)}"
        rate = self._rate(machine.host)
        if not rate:
            return f"{state.doing}: {share}"
        left = duration((needed - arrived) / rate)
        return f"{state.doing}: {share}, {amount_of_bytes(rate)}/s, {left} left"

    def _rate(self, host: str) -> float:
        (began, before), (ended, after) = self._arrived[host][0], self._arrived[host][-1]
        return (after - before) / (ended - began) if ended > began else 0.0
