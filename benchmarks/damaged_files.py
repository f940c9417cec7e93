"""Damage samples of every format, let the command line read them, and count what goes wrong.

    .venv/bin/python benchmarks/damaged_files.py --cases 50000

Cases are repeatable: the same numbers make the same damage. The table has a line for each
format; below it stands the first case of each kind of failure.
"""

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from fuzz.readers import Outcome, Reader, read_damaged
from fuzz.samples import READERS

KINDS = ("traceback", "hang", "accepted", "obeyed")


def kind_of(outcome: Outcome) -> str:
    """Return what went wrong, or ""."""
    if outcome.crashed:
        return "hang" if outcome.crashed.startswith("HangError") else "traceback"
    return "accepted" if outcome.accepted else "obeyed" if outcome.obeyed else ""


def campaign(reader: Reader, copy: Path, first: int, cases: int) -> tuple[Counter, dict]:
    """Make at least so many cases; return counts, and the first seed of each failure."""
    counts, examples, seed = Counter(), {}, first
    while counts["cases"] < cases:
        for outcome in read_damaged(reader, copy, seed):
            kind = kind_of(outcome)
            counts.update(["cases", kind] if kind else ["cases"])
            if kind:
                examples.setdefault((kind, outcome.command, outcome.crashed), seed)
        seed += 1
    return counts, examples


def main() -> None:
    """Run the campaign and print its table; the exit code is 1 if anything went wrong."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cases", type=int, default=50_000, help="in all formats together")
    parser.add_argument("--first", type=int, default=1_000, help="number of the first case")
    parser.add_argument("--only", choices=READERS, action="append", help="this format")
    options = parser.parse_args()
    names = options.only or list(READERS)
    share, failed = -(-options.cases // len(names)), {}
    print(f"| format | cases | {' | '.join(KINDS)} | seconds |\n|{'---|' * 7}")
    for name in names:
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as place:
            reader = READERS[name](Path(place) / "sample")
            cases = -(-share // reader.cost)
            counts, examples = campaign(reader, Path(place) / "copy", options.first, cases)
        cells = [counts[kind] for kind in ("cases", *KINDS)]
        seconds = time.monotonic() - began
        print(f"| {name} | {' | '.join(map(str, cells))} | {seconds:.0f} |", flush=True)
        failed.update({(name, *key): seed for key, seed in examples.items()})
    for key, seed in failed.items():
        print(f"case {seed}:", *key)
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
