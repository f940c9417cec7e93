"""How long to wait for a server, and how often to ask again."""

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Patience:
    """How long to wait, and how often to ask again, before the next mirror has its turn.

    `pauses` (seconds) lie between attempts that brought less than `progress_bytes` of news.
    A server may ask for longer ones, up to `longest_pause`. A connection that brings fewer
    than `least_bytes` within `timeout` seconds counts as broken.
    """

    pauses: tuple[float, ...] = (1.0, 2.0, 4.0)
    longest_pause: float = 60.0
    timeout: float = 30.0
    least_bytes: int = 1024
    progress_bytes: int = 1 << 20
    sleep: Callable[[float], None] = time.sleep


USUAL = Patience()
