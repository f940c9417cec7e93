"""Programs on several machines at a terminal: what they say, and who gets a signal."""

import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from unisono.launch.everywhere import Everywhere, Line


def show_everywhere(running: Everywhere, names: Sequence[str], *, bare: bool = False) -> None:
    """Print what the machines say, after their names, until all have ended.

    Results are `bare` if only one machine has any: what another program reads, unchanged.
    """
    with passing_on(running.signal):
        for event in running.events():
            name = names[event.node]
            if isinstance(event, Line):
                stream = sys.stderr if event.is_error else sys.stdout
                is_result = bare and not event.is_error
                text = event.text if is_result else f"{name} | {event.text}"
                print(text, file=stream, flush=True)
            elif event.exit_code:
                text = f"{name} ended with exit code {event.exit_code}"
                print(text, file=sys.stderr, flush=True)


@contextmanager
def passing_on(receive: Callable[[int], None]) -> Iterator[None]:
    """Let signals that are meant to stop us be received by the machines."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, lambda n, _: receive(n)) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
