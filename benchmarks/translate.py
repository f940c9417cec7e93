"""How fast is `unisono translate`, and where does its start-up go?

    python benchmarks/translate.py --model RUN --text FILE [--workers 1,2] [--rounds 3]

The program translates the whole text and its first line, in turns; the difference of the two
is the time of the text without start-up. Every process has one thread. On a machine that others
use, look at the seconds of CPU: they are what the same work would take alone, or a little more.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from measure import machine, median, run

_ENV = {**os.environ, "OMP_NUM_THREADS": "1"}
STAGES = """
import os, sys, time
began = time.process_time()
def lap(name):
    global began
    now = time.process_time()
    print(f"  {now - began:6.3f}  {name}")
    began = now
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
import torch
lap("import torch")
from unisono.bundle.reader import ensemble, open_bundle
lap("import unisono")
from pathlib import Path
from unisono.bundle.format import bundle_at
bundle = open_bundle(bundle_at(Path(sys.argv[1])))
lap("check the bundle")
translator = ensemble([bundle])
lap("load the weights")
translator.translate(["One line."])
lap("translate one line")
"""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--workers", default="1,2")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    print(machine())
    print("start-up, seconds of CPU")
    print(run([sys.executable, "-c", STAGES, given.model]).output, end="")
    lines = given.text.read_bytes().splitlines(keepends=True)
    with tempfile.TemporaryDirectory() as directory:
        first = Path(directory) / "first"
        first.write_bytes(lines[0])
        for workers in given.workers.split(","):
            seconds, cpu = _measure(given, first, workers)
            print(
                f"{workers} workers: {len(lines) / seconds:.1f} sentences/s, "
                f"{len(lines) / cpu:.1f} for each second of CPU, without start-up"
            )


def _measure(given: argparse.Namespace, first: Path, workers: str) -> tuple[float, float]:
    """Return the median seconds, on the clock and of CPU, of the text without start-up."""
    words = [sys.executable, "-m", "unisono", "translate", "--device=cpu", "--beam=5"]
    command = [*words, f"--workers={workers}", "--model", given.model]
    rounds = []
    for _ in range(given.rounds):
        whole, one = _run(command, given.text), _run(command, first)
        rounds.append((whole[0] - one[0], whole[1] - one[1]))
    return median([seconds for seconds, _ in rounds]), median([cpu for _, cpu in rounds])


def _run(command: list[str], text: Path) -> tuple[float, float]:
    before = os.times()
    with text.open("rb") as lines:
        subprocess.run(command, stdin=lines, stdout=subprocess.DEVNULL, check=True, env=_ENV)
    after = os.times()
    cpu = sum(after[2:4]) - sum(before[2:4])
    return after.elapsed - before.elapsed, cpu


if __name__ == "__main__":
    main()
