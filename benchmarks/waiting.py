"""Does a step ever wait for data?

    python benchmarks/waiting.py [--seconds 60] [--pairs 4500000]

On Multi30k and on a corpus of WMT's size (`big_text.py`, prepared first), the small preset is
trained by two processes for a while, and each step's own record is read: the share of its
time in which there was no batch, on the process that waited most. Beside it, what the loader
could deliver if nobody computed anything, over the end of an epoch and into the next.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

from big_text import read_multi30k, write_text
from measure import machine

from unisono.batching.settings import Budget
from unisono.batching.stream import Stream
from unisono.corpus.reader import open_corpus

MULTI30K = Path(__file__).resolve().parents[2] / "shared" / "data" / "multi30k-en-de"
TOKENS, MICRO_BATCH, PROCESSES = 4096, 1024, 2
SKIPPED = 3  # updates before the clock starts
GOAL = 0.01


def main() -> None:
    """Measure and print a page of Markdown."""
    options = _options()
    if not MULTI30K.is_dir():
        raise SystemExit(f"Multi30k is not at {MULTI30K}: see CORPORA.md beside it")
    work = Path(options.directory)
    work.mkdir(parents=True, exist_ok=True)
    print(f"{time.strftime('%Y-%m-%d')}, {machine()}\n", flush=True)
    print("| corpus | updates | data wait, worst process | longest wait | loader alone |")
    print("|---|---|---|---|---|", flush=True)
    small = [work / "multi30k.en", work / "multi30k.de"]
    _write(small, read_multi30k(MULTI30K, "train"))
    for name, vocabulary, sides in (
        ("Multi30k", 8_000, small),
        (f"{options.pairs:,} pairs", 32_000, write_text(work, options.pairs, MULTI30K)),
    ):
        config = _config(work, sides[0].stem, vocabulary, *sides)
        _unisono("prepare", config)
        _unisono(
            "launch",
            config,
            f"--workers={PROCESSES}",
            "--set",
            f"train.max_time={options.seconds:.0f} s",
        )
        _print(name, work / "runs" / sides[0].stem, work / f"corpus-{sides[0].stem}")
    print(f"\nThe goal: less than {GOAL:.0%} of the step.")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60, help="of training on each")
    parser.add_argument("--pairs", type=int, default=4_500_000)
    parser.add_argument("--directory", default="/tmp/unisono-waiting", help="4 GB of room")
    return parser.parse_args()


def _write(paths: list[Path], pairs: list[tuple[str, str]]) -> None:
    for path, lines in zip(paths, zip(*pairs, strict=True), strict=True):
        path.write_text("".join(f"{line}\n" for line in lines), "utf-8")


def _config(work: Path, name: str, vocabulary: int, source: Path, target: Path) -> Path:
    valid = [work / "valid.en", work / "valid.de"]
    _write(valid, read_multi30k(MULTI30K, "val"))
    path = work / f"{name}.toml"
    path.write_text(
        f"""run = "{work / "runs" / name}"
device = "cpu"
[data]
train = [{{source = "{source}", target = "{target}"}}]
valid = {{source = "{valid[0]}", target = "{valid[1]}"}}
[corpus]
directory = "{work / f"corpus-{name}"}"
vocabulary = {vocabulary}
[model]
preset = "small"
[batching]
tokens_per_update = {TOKENS}
tokens_per_micro_batch = {MICRO_BATCH}
[train]
max_steps = 1000000
[validation]
bleu = false
"""
    )
    return path


def _unisono(*words: str | Path) -> None:
    command = [sys.executable, "-m", "unisono", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"`{' '.join(command)}` failed:\n{done.stderr[-2000:]}")


def _print(name: str, run: Path, corpus: Path) -> None:
    shares, longest, updates = [], 0.0, 0
    for journal in sorted((run / "events").glob("rank-*.jsonl")):
        events = [json.loads(line) for line in journal.read_text("utf-8").splitlines()]
        steps = [event for event in events if event["kind"] == "step"][SKIPPED:]
        waits = [step.get("data", 0.0) for step in steps]
        shares.append(sum(waits) / sum(step["seconds"] for step in steps))
        longest, updates = max(longest, *waits), len(steps)
    print(
        f"| {name} | {updates} | **{max(shares):.3%}** | {1000 * longest:.1f} ms "
        f"| {_loader_alone(corpus):,.0f} target tokens/s |",
        flush=True,
    )


def _loader_alone(corpus: Path, updates: int = 300) -> float:
    """Return the rate over the last updates of an epoch and the first of the next.

    Updates are prepared ahead and come in bunches: only the whole tells how fast.
    """
    split = open_corpus(corpus).split("train")
    stream = Stream(split, Budget(TOKENS, MICRO_BATCH), seed=1, rank=0, size=PROCESSES)
    works = stream.from_position(1, max(0, stream.updates_in(1) - updates // 2))
    began = time.perf_counter()
    tokens = sum(next(works).plan.target_tokens for _ in range(updates))
    return tokens / (time.perf_counter() - began)


if __name__ == "__main__":
    main()
