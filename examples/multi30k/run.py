"""Multi30k English→German from nothing to BLEU, once for each seed.

    python examples/multi30k/run.py                  # seeds 1, 2, 3 on two processes
    python examples/multi30k/run.py --seeds 1 --set train.max_steps=20

Started in the root of the project. It calls `unisono` as a person would; every command is
shown before it runs. What is there already is not done again: text and corpus are kept, and a
run that was broken off is continued. Scores go to standard output, everything else to
standard error.
"""

import argparse
import json
import shlex
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
CONFIG = HERE / "train.toml"
TEXT = Path("data/multi30k-en-de")
SETS = ("train", "valid", "test_2016_flickr")
OWN_COPY = HERE.parents[2] / "shared" / "data" / "multi30k-en-de"
BEAM = 5


def main() -> None:
    """Do everything for all seeds and say what came out."""
    options = parsed()
    began = time.monotonic()
    get_text(options.text)
    unisono("prepare", str(CONFIG))
    say(f"text and corpus: {minutes(began)}")
    scores = []
    for seed in options.seeds:
        began = time.monotonic()
        scored = one_seed(seed, options)
        scores.append(scored["bleu"])
        print(f"seed {seed}: BLEU {scored['bleu']:.2f} in {minutes(began)}", flush=True)
    print(f"signature: {scored['signature']}")
    spread = f", from {min(scores):.2f} to {max(scores):.2f}" if len(scores) > 1 else ""
    print(f"mean of {len(scores)}: {statistics.mean(scores):.2f}{spread}")


def one_seed(seed: int, options: argparse.Namespace) -> dict[str, float | str]:
    """Train, translate and score; return BLEU and its signature."""
    run = Path(options.runs) / f"multi30k-{seed}"
    changes = [f"seed={seed}", f"run={run}", *options.set]
    sets = [word for change in changes for word in ("--set", change)]
    unisono("launch", str(CONFIG), "--workers", str(options.workers), *sets)
    source, reference = (TEXT / f"test_2016_flickr.{side}" for side in ("en", "de"))
    output = run / "test_2016_flickr.de"
    with source.open("rb") as lines, output.open("wb") as written:
        model = ("--model", str(run), "--beam", str(BEAM))
        unisono("translate", *model, stdin=lines, stdout=written)
    told = unisono("score", "--json", str(output), str(reference), stdout=subprocess.PIPE)
    return json.loads(told)


def get_text(copy: Path) -> None:
    """Get the text from a copy on this machine if there is one, otherwise from the net."""
    only = [word for name in SETS for word in ("--only", name)]
    source = ["--from", str(copy), "--offline"] if copy.is_dir() else []
    unisono("corpora", "get", "multi30k-en-de", "--to", str(TEXT), *source, *only)


def unisono(*arguments: str, **streams: object) -> bytes:
    """Run a command of Unisono; return what it wrote, if `stdout` is a pipe."""
    say("$ " + shlex.join(["unisono", *arguments]))
    command = [sys.executable, "-m", "unisono", *arguments]
    done = subprocess.run(command, **{"stdout": sys.stderr, **streams}, check=False)
    if done.returncode:
        sys.exit(done.returncode)  # it has said why
    return done.stdout


def parsed() -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--workers", type=int, default=2, help="processes that train")
    parser.add_argument("--text", type=Path, default=OWN_COPY, help="where the text may be")
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("--set", action="append", default=[], metavar="TABLE.KEY=VALUE")
    return parser.parse_args()


def minutes(began: float) -> str:
    """Return the time since `began`."""
    whole, rest = divmod(round(time.monotonic() - began), 60)
    return f"{whole} min {rest:02d} s"


def say(text: str) -> None:
    """Say something to the person who waits."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
