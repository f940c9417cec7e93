"""What does it cost a training to look at itself? Processor time of a look, by size of the run.

    python benchmarks/looking.py [--looks 5] [--ranks 1 2 8 64]

Files as the processes and samplers of a run would write them grow by 10 s of training between
two looks; what counts is the median of the looks after the first. The leading process takes a
look every 10 s, or so much more rarely that it is never more than 0.2 % of its time.
"""

import argparse
import tempfile
import time
from pathlib import Path

from measure import machine, median

from unisono.live.live_diagnosis import EVERY_SECONDS, MOST_OF_THE_TIME, look_at
from unisono.records import monitor_events as sampled
from unisono.records.events import Started, StepTaken, to_line
from unisono.records.follow import Follower
from unisono.records.monitor_events import Machine, Peer, Sampled, Traffic

STEP_SECONDS = 0.25
RANKS_OF_A_MACHINE = 4
BEGAN = 1_700_000_000.0


def main() -> None:
    """Print a table: processor time of a look, and how often one is taken then."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--looks", type=int, default=5)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 8, 64])
    options = parser.parse_args()
    print(machine())
    print("| processes | machines | a look | taken every | of the time |")
    print("|---|---|---|---|---|")
    for ranks in options.ranks:
        seconds = measure(ranks, options.looks)
        pause = max(EVERY_SECONDS, seconds / MOST_OF_THE_TIME)
        machines = -(-ranks // RANKS_OF_A_MACHINE)
        cells = f"{1000 * seconds:.1f} ms | {pause:.0f} s | {100 * seconds / pause:.2f} %"
        print(f"| {ranks} | {machines} | {cells} |")


def measure(ranks: int, looks: int) -> float:
    """Return the median processor seconds of a look at a run of so many processes."""
    costs = []
    with tempfile.TemporaryDirectory() as directory:
        run = Path(directory)
        begin(run, ranks)
        follower = Follower(run)
        for number in range(looks + 1):
            since = 80.0 + EVERY_SECONDS * number if number else 0.0
            until = 80.0 + EVERY_SECONDS * (number + 1)
            go_on(run, ranks, since, until)
            began = time.process_time()
            look_at(follower.look(), BEGAN + until)
            costs.append(time.process_time() - began)
    return median(costs[1:])


def begin(run: Path, ranks: int) -> None:
    """Write what stands at the beginning of a run."""
    (run / "config.toml").write_text("[train]\nmax_steps = 100000\n")
    for rank in range(ranks):
        started = Started(
            time=BEGAN,
            step=0,
            rank=rank,
            size=ranks,
            local_rank=rank % RANKS_OF_A_MACHINE,
            host=f"node{rank // RANKS_OF_A_MACHINE}",
            pid=1,
            device="cpu",
            threads=1,
            strategy="ddp",
            parameters=60_000_000,
            updates_per_epoch=1000,
            interface="eth0",
            address=address(rank),
        )
        add(run / "events" / f"rank-{rank:04d}.jsonl", [to_line(started)])
        if rank % RANKS_OF_A_MACHINE == 0:
            about = Machine(
                time=BEGAN, rank=rank, host=started.host, pids=[1], cores=8, memory=1, every=1.0
            )
            add(run / "monitor" / f"rank-{rank:04d}.jsonl", [sampled.to_line(about)])


def go_on(run: Path, ranks: int, since: float, until: float) -> None:
    """Write what is added to the files between two moments, in seconds since the start."""
    steps = range(int(since / STEP_SECONDS) + 1, int(until / STEP_SECONDS) + 1)
    for rank in range(ranks):
        lines = [to_line(step(number, late=rank == 1)) for number in steps]
        add(run / "events" / f"rank-{rank:04d}.jsonl", lines)
        if rank % RANKS_OF_A_MACHINE == 0:
            seconds = range(int(since), int(until))
            looks = [sampled.to_line(sample(second, rank, ranks)) for second in seconds]
            add(run / "monitor" / f"rank-{rank:04d}.jsonl", looks)


def step(number: int, *, late: bool) -> StepTaken:
    """Return an update; the process that is late waits for nobody."""
    return StepTaken(
        time=BEGAN + number * STEP_SECONDS,
        step=number,
        epoch=1,
        loss=3.0 + (number % 7) / 100,
        gradient_norm=1.0,
        learning_rate=1e-3,
        target_tokens=4000,
        source_tokens=4000,
        positions=9000,
        sentences=150,
        seconds=STEP_SECONDS,
        data=0.001,
        forward=0.05,
        backward=0.13 if late else 0.10,
        exchange=0.04 if late else 0.07,
        agree=0.005,
        optimizer=0.01,
    )


def sample(second: int, rank: int, ranks: int) -> Sampled:
    """Return a look at a machine that sends and receives."""
    count = 100_000_000 * second
    other = address((rank + RANKS_OF_A_MACHINE) % max(1, ranks))
    return Sampled(
        time=BEGAN + second,
        seconds=1.0,
        interfaces={name: Traffic(received=count, sent=count) for name in ("lo", "eth0", "b")},
        peers={other: Peer(sent=count, received=count, busy=0.6 * second, busiest_sent=count)},
        cores=[0.5] * 8,
        memory_used=1,
        memory_limit=2,
        own_cpu=3.0 * second,
    )


def address(rank: int) -> str:
    """Return the address of the machine of a process."""
    return f"10.0.0.{1 + rank // RANKS_OF_A_MACHINE}"


def add(path: Path, lines: list[bytes]) -> None:
    """Add lines to a file."""
    path.parent.mkdir(exist_ok=True)
    with path.open("ab") as file:
        file.writelines(line + b"\n" for line in lines)


if __name__ == "__main__":
    main()
