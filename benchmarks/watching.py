"""What the live page costs: memory, the first page after 100,000 updates, the step beside it.

    python benchmarks/watching.py [--steps 100000] [--config configs/demo.toml] [--pairs 10]

The first part writes the files of a run of two processes, starts `unisono watch --web` and
takes three times: until the page is asked for, from there until the browser has the page, and
until it has all parts with all charts. The second part needs the prepared corpus of the
configuration (`unisono prepare`). It trains once, with two processes and the samplers, while
the page is open in one browser (a connection that reads everything). The server of the page is
stopped (SIGSTOP) and continued for equal times in turn: what counts is the mean update of a
stretch with the page over that of the stretch without beside it. The processor time of the
server bounds what it can have cost where the clock of the updates is too coarse.
"""

import argparse
import json
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import psutil
from looking import STEP_SECONDS, begin, go_on
from measure import machine

from unisono.records.events import Sample, Validated, to_line
from unisono.records.follow import Follower

SETTLING = 2.0  # seconds after a change that count for neither side
PROCESSES = 2
ALL_PARTS = {"0/head", "0/machines", "0/now", "0/findings", "0/course", "0/charts",
             "0/over", "0/answers"}  # fmt: skip


def main() -> None:
    """Print both parts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--config", type=Path, default=Path("configs/demo.toml"))
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--stretch", type=float, default=20.0)
    options = parser.parse_args()
    print(machine())
    with tempfile.TemporaryDirectory() as directory:
        run = Path(directory) / "long"
        write_long_run(run, options.steps)
        first_page(run)
        if options.pairs:
            beside_a_run(Path(directory) / "run", options)


def write_long_run(run: Path, steps: int) -> None:
    """Write what a run of so many updates has recorded, with a hundred validations."""
    run.mkdir()
    begin(run, PROCESSES)
    go_on(run, PROCESSES, 0.0, steps * STEP_SECONDS)
    log = run / "events" / "rank-0000.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    every = max(1, steps // 100)
    with log.open("wb") as file:
        for number, line in enumerate(lines):
            file.write(line)
            if number and number % every == 0:
                file.write(to_line(validation(number, json.loads(line)["time"])) + b"\n")


def validation(step: int, moment: float) -> Validated:
    """Return a validation with five translations."""
    texts = [f"A sentence of usual length, number {n}, at step {step}." for n in range(5)]
    return Validated(
        time=moment,
        step=step,
        loss=2.0 + 5.0 * step**-0.3,
        bleu=30.0 * (1 - step**-0.1),
        sentences=1000,
        target_tokens=25_000,
        seconds=3.0,
        samples=tuple(Sample(text, text, text) for text in texts),
    )


class Page:
    """`unisono watch --web`, and one browser that reads everything."""

    def __init__(self, run: Path) -> None:
        self.began = time.perf_counter()
        command = [sys.executable, "-m", "unisono", "watch", str(run), "--web", "--port", "0"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout
        found = re.search(r":(\d+)/", self._process.stdout.readline())
        assert found
        self.port, self.served = int(found[1]), time.perf_counter()
        self.process = psutil.Process(self._process.pid)
        self.bytes, self.parts, self.complete = 0, set[str](), threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)

    def ask(self, path: str) -> socket.socket:
        """Send a request."""
        connection = socket.create_connection(("127.0.0.1", self.port))
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        return connection

    def shell(self) -> None:
        """Load the page without its parts."""
        with self.ask("/") as connection:
            while connection.recv(1 << 16):
                pass

    def listen(self) -> None:
        """Begin to read the events."""
        self._reader.start()

    def _read(self) -> None:
        with self.ask("/events") as connection, connection.makefile("rb") as file:
            for line in file:
                self.bytes += len(line)
                if line.startswith(b"data: ") and not self.complete.is_set():
                    self.parts |= set(json.loads(line[6:]))
                    if self.parts >= ALL_PARTS:
                        self.complete.set()

    def close(self) -> None:
        """End the server."""
        self._process.send_signal(signal.SIGCONT)
        self._process.terminate()
        self._process.wait()


def first_page(run: Path) -> None:
    """Print how soon everything is there, and the memory."""
    page = Page(run)
    page.shell()
    shell = time.perf_counter()
    page.listen()
    assert page.complete.wait(600)
    everything = time.perf_counter()
    began = time.perf_counter()
    page.shell()
    with page.ask("/events") as connection, connection.makefile("rb") as file:
        line = next(line for line in file if line.startswith(b"data: "))
    later = time.perf_counter() - began
    time.sleep(30.0)
    memory = page.process.memory_info().rss / 1e6
    peak = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{page.process.pid}/status").read_text())
    assert peak
    print(f"from the command to the link: {page.served - page.began:.2f} s")
    print(f"from there to the page: {shell - page.served:.3f} s")
    print(f"from there to all parts and charts: {everything - shell:.2f} s")
    print(f"a browser that comes later has them after {later:.3f} s ({len(line):,} bytes)")
    print(f"memory after 30 s: {memory:.1f} MB, at most {int(peak[1]) * 1024 / 1e6:.1f} MB")
    page.close()


def beside_a_run(run: Path, options: argparse.Namespace) -> None:
    """Print the ratio of updates with the page to updates without."""
    command = [sys.executable, "-m", "unisono", "launch", str(options.config)]
    settings = [f"run={run}", "train.max_steps=1000000", "validation.every_steps=1000000"]
    settings += ["checkpoint.every_steps=1000000"]
    command += [f"--workers={PROCESSES}", *(w for s in settings for w in ("--set", s))]
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    ) as training:
        try:
            while not any(run.glob("events/*0.jsonl")) or len(Follower(run).look().steps) < 50:
                assert training.poll() is None
                time.sleep(1.0)
            measure(run, options)
        finally:
            training.send_signal(signal.SIGTERM)
            training.wait()


def measure(run: Path, options: argparse.Namespace) -> None:
    """Stop and continue the server in turn, and compare the updates."""
    page = Page(run)
    page.listen()
    assert page.complete.wait(600)
    stretches: list[tuple[bool, float, float]] = []
    cpu, seconds, sent = 0.0, 0.0, page.bytes
    for number in range(2 * options.pairs):
        shown = number % 4 in (0, 3)  # with, without, without, with: what drifts cancels
        page.process.send_signal(signal.SIGCONT if shown else signal.SIGSTOP)
        used, began = page.process.cpu_times(), time.time()
        time.sleep(options.stretch)
        now, until = page.process.cpu_times(), time.time()
        stretches.append((shown, began + SETTLING, until))
        if shown:
            cpu += now.user + now.system - used.user - used.system
            seconds += until - began
    received = page.bytes - sent
    page.close()
    steps = [json.loads(line) for line in (run / "events" / "rank-0000.jsonl").open()]
    means = [
        (shown, statistics.fmean(s["seconds"] for s in steps if kept(s, began, until)))
        for shown, began, until in stretches
    ]
    ratios = [
        (a[1] / b[1] if a[0] else b[1] / a[1])
        for a, b in zip(means[::2], means[1::2], strict=True)
    ]
    error = statistics.stdev(ratios) / len(ratios) ** 0.5
    alone = 1000 * statistics.fmean(mean for shown, mean in means if not shown)
    print(f"mean update without the page: {alone:.1f} ms")
    print(f"with the page: {100 * (statistics.fmean(ratios) - 1):+.2f} % ± {100 * error:.2f} %")
    print(f"processor time of the server: {100 * cpu / seconds:.2f} % of one core")
    print(f"sent to the browser: {received / seconds:,.0f} bytes a second")


def kept(event: dict[str, object], began: float, until: float) -> bool:
    """Return whether an event is an update of a stretch."""
    moment = event["time"]
    return event["kind"] == "step" and isinstance(moment, float) and began <= moment <= until


if __name__ == "__main__":
    main()
