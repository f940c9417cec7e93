"""How fast is `unisono translate`, in fp32 and bf16, and where does its start-up go?

    python benchmarks/translate.py --model RUN --text FILE [--workers 1,2] [--rounds 3]
        [--references FILE] [--before DIRECTORY] [--export DIRECTORY]

`--before` is `src` of an older version of our code, `--export` the same model for CTranslate2
(`unisono export RUN --to ctranslate2`); both take turns with ours, and translations are
compared with those of the first in the table.

The program translates the whole text and its first line, in turns; the difference of the two
is the time of the text without start-up. Every process has one thread. On a machine that others
use, look at the seconds of CPU: they are what the same work would take alone, or a little more.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from measure import machine, median, run

from unisono.score import score_bleu

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
    parser.add_argument("--references", type=Path)
    parser.add_argument("--before", type=Path, default=None)
    parser.add_argument("--export", type=Path, default=None)
    given = parser.parse_args()
    print(machine())
    print("start-up, seconds of CPU")
    print(run([sys.executable, "-c", STAGES, given.model]).output, end="")
    for workers in given.workers.split(","):
        _compare(given, int(workers))


def _compare(given: argparse.Namespace, workers: int) -> None:
    """Let all ways take turns, and print a table."""
    lines = given.text.read_bytes().splitlines(keepends=True)
    rates: dict[str, list[float]] = {}
    cpu_rates: dict[str, list[float]] = {}
    said: dict[str, list[str]] = {}
    with tempfile.TemporaryDirectory() as directory:
        first = Path(directory) / "first"
        first.write_bytes(lines[0])
        for _ in range(given.rounds):
            for name, (options, env) in _ways(given).items():
                command = [sys.executable, "-m", "unisono", "translate", "--device=auto"]
                command += ["--beam=5", f"--workers={workers}", *options]
                (seconds, cpu), said[name] = _run(command, given.text, env)
                (start, start_cpu), _ = _run(command, first, env)
                rates.setdefault(name, []).append(len(lines) / (seconds - start))
                cpu_rates.setdefault(name, []).append(len(lines) / (cpu - start_cpu))
    base = next(iter(rates))
    print(f"\n{workers} workers, {len(lines):,} sentences, {given.rounds} rounds, medians\n")
    print(
        f"| way | sentences/s (least – most) | for a second of CPU | × {base} | same | BLEU |"
    )
    print("|---|---|---|---|---|---|")
    for name, found in rates.items():
        pairs = zip(said[name], said[base], strict=True)
        same = 100 * statistics.mean(mine == other for mine, other in pairs)
        bleu = ""
        if given.references:
            wanted = given.references.read_text("utf-8").split("\n")[:-1]
            bleu = f"{score_bleu(said[name], wanted).score:.2f}"
        print(
            f"| {name} | {median(found):.1f} ({min(found):.1f} – {max(found):.1f}) "
            f"| {median(cpu_rates[name]):.1f} | {median(found) / median(rates[base]):.2f} "
            f"| {same:.1f} % | {bleu} |"
        )


def _ways(given: argparse.Namespace) -> dict[str, tuple[list[str], dict[str, str]]]:
    """Return the options and the environment of each way to translate."""
    ours = ["--model", given.model]
    ways = {}
    if given.before:
        ways["before, fp32"] = (ours, {**_ENV, "PYTHONPATH": str(given.before.resolve())})
    for precision in ("fp32", "bf16"):
        ways[precision] = ([*ours, f"--precision={precision}"], _ENV)
    if given.export:
        ways["CTranslate2"] = (["--engine=ctranslate2", "--model", str(given.export)], _ENV)
    return ways


def _run(
    command: list[str], text: Path, env: dict[str, str]
) -> tuple[tuple[float, float], list[str]]:
    """Return the seconds it took, on the clock and of CPU, and the translations."""
    before = os.times()
    with text.open("rb") as lines:
        done = subprocess.run(command, stdin=lines, stdout=subprocess.PIPE, check=True, env=env)
    after = os.times()
    cpu = sum(after[2:4]) - sum(before[2:4])
    return (after.elapsed - before.elapsed, cpu), done.stdout.decode().split("\n")[:-1]


if __name__ == "__main__":
    main()
