"""What a server allows. No torch here."""

from dataclasses import dataclass
from typing import Literal

MOST_ALTERNATIVES = 10


@dataclass(frozen=True)
class ServeWorkers:
    """Which program translates, in how many processes, and how it multiplies on a CPU."""

    engine: str = "unisono"
    count: int = 1
    precision: Literal["auto", "fp32", "bf16"] = "fp32"


@dataclass(frozen=True)
class ServeLimits:
    """How much one request may hold, how long it may take, and how many there may be.

    `requests_per_minute` counts for each key, or for each address without keys; 0 is no limit.
    """

    body_bytes: int = 2_000_000
    characters: int = 100_000
    texts: int = 100
    requests_per_minute: int = 0
    connections: int = 512
    waiting_sentences: int = 20_000
    head_seconds: float = 10.0
    body_seconds: float = 10.0
    translate_seconds: float = 120.0
    stop_seconds: float = 130.0
