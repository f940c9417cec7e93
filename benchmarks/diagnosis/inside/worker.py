"""`unisono`, with a fault built in: torchrun starts this file in its place.

`FAULTS` holds JSON: the name of each fault, its numbers, and the `ranks` it befalls (all, if
they are not named). `JOURNAL` is a file for what the fault did; the truth is told there.
"""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from unisono.cli import main  # before torch: it says how many threads numpy may have

# isort: split
import torch
import torch.distributed as dist

from unisono.batching import plan, stream
from unisono.batching.plan import StepPlan
from unisono.batching.stream import Batch
from unisono.text.tokenizer import PADDING_ID
from unisono.train import loop
from unisono.train.checkpoints import checkpoint
from unisono.train.evaluation import Evaluator


def write(**fields: Any) -> None:
    """Append a line to the journal."""
    with Path(os.environ["JOURNAL"]).open("a", encoding="utf-8") as file:
        file.write(json.dumps(fields) + "\n")


def slow_collate(seconds: float) -> None:
    """Let every micro-batch take longer to be put together."""
    real = stream.collate

    def slowly(*arguments: Any) -> Batch:
        time.sleep(seconds)
        return real(*arguments)

    stream.collate = slowly


def random_batches() -> None:
    """Train on sentences of any length together; count the padding. Evaluate as ever."""
    real, real_order = stream.collate, plan._sorted

    def as_they_come(ties: Any, *lengths: Any) -> Any:
        is_evaluation = (ties[1:] > ties[:-1]).all()
        return real_order(ties, *lengths) if is_evaluation else ties

    plan._sorted = as_they_come

    def counted(*arguments: Any) -> Batch:
        batch = real(*arguments)
        padding = sum(int((ids == PADDING_ID).sum()) for ids in (batch.source, batch.target_in))
        write(positions=batch.positions, padding=padding)
        return batch

    stream.collate = counted


def long_share() -> None:
    """Give rank 1 three of four micro-batches."""

    def share(self: StepPlan, rank: int, size: int) -> Any:
        cut = len(self.micro_batches) // 4
        return self.micro_batches[cut:] if rank == size - 1 else self.micro_batches[:cut]

    StepPlan.share = share  # type: ignore[method-assign]


def slow_disk(bytes_per_second: float) -> None:
    """Let the disk take its time for everything that is to be safe on it."""
    real = os.fsync

    def slowly(handle: int) -> None:
        real(handle)
        time.sleep(os.fstat(handle).st_size / bytes_per_second)

    os.fsync = slowly
    checkpoint.save = timed("save", checkpoint.save)


def timed_evaluation() -> None:
    """Change nothing; write down how long evaluations take."""
    Evaluator.validate = timed("evaluation", Evaluator.validate)  # type: ignore[method-assign]


def timed(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
    """Return `real` with an entry in the journal for each call."""

    def call(*arguments: Any) -> Any:
        began = time.perf_counter()
        result = real(*arguments)
        write(what=name, seconds=time.perf_counter() - began)
        return result

    return call


def no_exchange() -> None:
    """Let gradients stay where they are: the network that takes no time."""
    real = dist.all_reduce

    def at_once(
        tensor: torch.Tensor, *words: Any, async_op: bool = False, **others: Any
    ) -> Any:
        return Done(tensor) if async_op else real(tensor, *words, **others)

    dist.all_reduce = at_once


class Done:
    """An exchange that is over."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self._future: torch.futures.Future[list[torch.Tensor]] = torch.futures.Future()
        self._future.set_result([tensor])

    def get_future(self) -> "torch.futures.Future[list[torch.Tensor]]":
        """Return what is known already."""
        return self._future


def skipped_update(step: int) -> None:
    """Leave the weights as they are in one update, and say nothing."""
    real = torch.optim.Adam.step

    def step_or_not(self: torch.optim.Adam, *arguments: Any) -> Any:
        skipped_update.calls += 1  # type: ignore[attr-defined]
        return None if skipped_update.calls == step else real(self, *arguments)  # type: ignore[attr-defined]

    skipped_update.calls = 0  # type: ignore[attr-defined]
    torch.optim.Adam.step = step_or_not  # type: ignore[assignment]


def high_rate(step: int, factor: float) -> None:
    """From one update on, go much further than the schedule says."""
    real = torch.optim.Adam.step

    def step_far(self: torch.optim.Adam, *arguments: Any) -> Any:
        high_rate.calls += 1  # type: ignore[attr-defined]
        if high_rate.calls >= step:  # type: ignore[attr-defined]
            for group in self.param_groups:
                group["lr"] *= factor
        return real(self, *arguments)

    high_rate.calls = 0  # type: ignore[attr-defined]
    torch.optim.Adam.step = step_far  # type: ignore[assignment]


def watch_cores(rank: int) -> None:
    """Change nothing; write down for each update how long this thread had or wanted a core."""
    real, clock = loop.take_step, Path(f"/proc/self/task/{os.getpid()}/schedstat")

    def counted(parts: Any, work: Any, step: int, *others: Any) -> Any:
        result = real(parts, work, step, *others)
        computed, waited, _ = clock.read_text().split()
        positions = sum(batch.positions for batch in work.batches)
        busy = (int(computed) + int(waited)) / 1e9
        write(rank=rank, step=step, busy=busy, computed=positions)
        return result

    loop.take_step = counted


FAULTS: dict[str, Callable[..., None]] = {
    "slow_collate": slow_collate,
    "random_batches": random_batches,
    "long_share": long_share,
    "slow_disk": slow_disk,
    "timed_evaluation": timed_evaluation,
    "no_exchange": no_exchange,
    "skipped_update": skipped_update,
    "high_rate": high_rate,
}


def build_in(rank: int) -> None:
    """Build in what was ordered for this rank."""
    watch_cores(rank)
    for name, order in json.loads(os.environ.get("FAULTS", "{}")).items():
        numbers = dict(order)
        if rank in numbers.pop("ranks", [rank]):
            FAULTS[name](**numbers)


if __name__ == "__main__":
    build_in(int(os.environ.get("RANK", "0")))
    main()
