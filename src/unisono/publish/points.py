"""The history of a run as points: numbers at an update, or at a second of the run.

Points come from the records alone, so a tracker that was not there gets the same ones later.
A point is made of all records of at least some seconds, so that a run of weeks stays readable.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from statistics import fmean

from unisono.records.events import StepTaken, Tested, Validated
from unisono.records.monitor_events import Gpu, Sampled

# Seconds that one point stands for.
UPDATES_EVERY, PROCESS_EVERY, MACHINE_EVERY = 1.0, 10.0, 10.0


@dataclass(frozen=True)
class Point:
    """Some numbers at one time. `id` is that of this point alone, whoever makes it.

    `at` counts updates or, `of_machine`, seconds since the run began.
    """

    id: str
    time: float
    at: int
    values: dict[str, float]
    of_machine: bool = False


def finite(values: Iterable[tuple[str, float | None]]) -> dict[str, float]:
    """Return the numbers that are known and finite."""
    return {name: v for name, v in values if v is not None and math.isfinite(v)}


def updates_point(steps: list[StepTaken]) -> dict[str, float]:
    """Return the last of some updates, and their mean speed."""
    last, seconds = steps[-1], sum(step.seconds for step in steps)
    tokens = sum(step.target_tokens for step in steps)
    return finite(
        (
            ("training/loss", last.loss),
            ("training/gradient_norm", last.gradient_norm),
            ("training/learning_rate", last.learning_rate),
            ("training/epoch", last.epoch),
            ("training/seconds_per_update", seconds / len(steps)),
            ("training/target_tokens_per_second", tokens / seconds if seconds > 0 else None),
        )
    )


def process_point(rank: int, steps: list[StepTaken]) -> dict[str, float]:
    """Return the shares of the time of some updates of one process."""
    whole = sum(step.seconds for step in steps)
    if whole <= 0:
        return {}
    parts = {
        "compute": sum(step.forward + step.backward + step.optimizer for step in steps),
        "exchange": sum(step.exchange + step.agree for step in steps),
        "data": sum(step.data + step.copy for step in steps),
    }
    return finite((f"rank_{rank}/{name}_share", part / whole) for name, part in parts.items())


def score_point(event: Validated | Tested) -> dict[str, float]:
    """Return the scores of a validation or test."""
    place = "validation" if isinstance(event, Validated) else "test"
    loss = event.loss if isinstance(event, Validated) else None
    scores = {"bleu": event.bleu, "chrf": event.chrf}
    known = [(f"{place}/{name}", v) for name, v in scores.items() if v >= 0]
    return finite([(f"{place}/loss", loss), *known])


def machine_point(host: str, before: Sampled, samples: list[Sampled]) -> dict[str, float]:
    """Return what a machine did since the sample `before`; rates are in bytes a second."""
    last = samples[-1]
    cores = [fmean(sample.cores) for sample in samples if sample.cores]
    values: list[tuple[str, float | None]] = [
        ("cpu_share", fmean(cores) if cores else None),
        ("memory_share", last.memory_used / last.memory_limit if last.memory_limit else None),
        *_traffic(before, last),
        *(part for gpu in last.gpus for part in _gpu(gpu)),
    ]
    return finite((f"machine/{host}/{name}", value) for name, value in values)


def _traffic(before: Sampled, last: Sampled) -> Iterator[tuple[str, float | None]]:
    seconds = last.time - before.time
    for name, traffic in last.interfaces.items():
        then = before.interfaces.get(name)
        if then is not None and seconds > 0 and name != "lo":
            sent, received = traffic.sent - then.sent, traffic.received - then.received
            yield f"{name}_sent_bytes_per_second", max(0.0, sent / seconds)
            yield f"{name}_received_bytes_per_second", max(0.0, received / seconds)


def _gpu(gpu: Gpu) -> Iterator[tuple[str, float | None]]:
    yield f"gpu_{gpu.index}_utilisation_share", gpu.utilisation
    yield f"gpu_{gpu.index}_power_watts", gpu.watts
    yield f"gpu_{gpu.index}_memory_used_bytes", gpu.memory_used
    yield f"gpu_{gpu.index}_temperature_celsius", gpu.celsius
