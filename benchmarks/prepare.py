"""How fast, and in how much memory, does text become a corpus?

    python benchmarks/prepare.py [--pairs 4500000] [--small 500000] [--rounds 3]

Text: `big_text.py`. Side by side, in turns:

- the whole of `unisono prepare` against `plain_pipeline.py`, on the small text;
- its encoding stage against `spm_encode` (Debian: sentencepiece), as many of either at a
  time as there are cores, on the small text and on Europarl if it is there.

Then the large text once: wall clock, stages, memory of all processes; and how long it takes
to open the corpus and plan its first epoch.
"""

import argparse
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

from big_text import read_multi30k, write_text
from measure import Measured, machine, median, run

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
MULTI30K = SHARED / "multi30k-en-de"
PIECES, SAMPLE = 32_000, 1_000_000
GIB = 2**30


def main() -> None:
    """Measure and print a page of Markdown."""
    options = _options()
    work = Path(options.directory)
    if not (MULTI30K).is_dir():
        raise SystemExit(f"Multi30k is not at {SHARED}: see CORPORA.md there")
    print(f"{time.strftime('%Y-%m-%d')}, {machine()}\n", flush=True)
    small = Preparation(work, "small", *write_text(work, options.small, MULTI30K))
    print(f"## {options.small:,} pairs, {options.rounds} rounds\n", flush=True)
    compare(small, options.small, options.rounds)
    if (SHARED / "europarl-en-de").is_dir():
        print("## Europarl, 325,365 pairs\n", flush=True)
        compare(europarl(work), 325_365, options.rounds)
    large = Preparation(work, "large", *write_text(work, options.pairs, MULTI30K))
    print(f"## {options.pairs:,} pairs\n", flush=True)
    measured = large.run()
    _print_run("unisono prepare", measured, options.pairs)
    opening(large)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=4_500_000)
    parser.add_argument("--small", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--directory", default="/tmp/unisono-prepare", help="12 GB of room")
    return parser.parse_args()


class Preparation:
    """One text, and the corpus that is made of it."""

    def __init__(self, work: Path, name: str, source: Path, target: Path) -> None:
        self.source, self.target = source, target
        self.corpus = work / f"corpus-{name}"
        self.plain = work / f"plain-{name}"
        valid = read_multi30k(MULTI30K, "val")
        self._config = work / f"{name}.toml"
        files = [work / f"valid.{language}" for language in ("en", "de")]
        for path, lines in zip(files, zip(*valid, strict=True), strict=True):
            path.write_text("".join(f"{line}\n" for line in lines))
        self._config.write_text(
            f'[data]\ntrain = [{{source = "{source}", target = "{target}"}}]\n'
            f'valid = {{source = "{files[0]}", target = "{files[1]}"}}\n'
            f'[corpus]\ndirectory = "{self.corpus}"\nvocabulary = {PIECES}\n'
            f"learning_lines = {SAMPLE}\n[train]\nmax_steps = 1\n"
        )

    def run(self) -> tuple[Measured, dict[str, float]]:
        """Prepare, and return how long each stage took."""
        shutil.rmtree(self.corpus, ignore_errors=True)
        measured = run([sys.executable, Path(__file__).with_name("stages.py"), self._config])
        return measured, json.loads(measured.output)

    def run_plain(self) -> Measured:
        """Do the same without us."""
        shutil.rmtree(self.plain, ignore_errors=True)
        script = Path(__file__).with_name("plain_pipeline.py")
        files = self.source, self.target, self.plain
        return run([sys.executable, script, *files, str(PIECES), str(SAMPLE)])

    def run_spm_encode(self, program: str) -> float:
        """Encode both clean sides at once, a process each; return the seconds."""
        began = time.perf_counter()
        processes = [
            subprocess.Popen(
                [program, f"--model={self.corpus / 'pieces.model'}", "--output_format=id"]
                + [f"--input={self.plain / name}", f"--output={self.plain / name}.spm"]
            )
            for name in ("clean.en", "clean.de")
        ]
        codes = [process.wait() for process in processes]
        if any(codes):
            raise SystemExit(f"spm_encode failed: {codes}")
        return time.perf_counter() - began


def europarl(work: Path) -> Preparation:
    """Return the sample of real text."""
    paths = []
    for language in ("en", "de"):
        paths.append(work / f"europarl.{language}")
        packed = SHARED / "europarl-en-de" / f"train.{language}.xz"
        with paths[-1].open("wb") as out:
            subprocess.run(["xz", "-dc", packed], stdout=out, check=True)
    return Preparation(work, "europarl", *paths)


def compare(text: Preparation, pairs: int, rounds: int) -> None:
    """Take turns with the plain pipeline and with spm_encode; print medians and ratios."""
    program = shutil.which("spm_encode")
    ours, plain, encode, spm = [], [], [], []
    for _ in range(rounds):
        measured = text.run()
        ours.append(measured)
        encode.append(measured[1]["encoding"])
        plain.append(text.run_plain())
        if program:
            spm.append(text.run_spm_encode(program))
    ours.sort(key=lambda one: one[0].seconds)
    plain.sort(key=lambda one: one.seconds)
    _print_run("unisono prepare (median)", ours[len(ours) // 2], pairs)
    middle = plain[len(plain) // 2]
    print(
        f"plain pipeline (median): {middle.seconds:.1f} s, "
        f"{pairs / middle.seconds:,.0f} pairs/s, peak {middle.peak_bytes / GIB:.2f} GiB"
    )
    ratio = middle.seconds / ours[len(ours) // 2][0].seconds
    print(f"**unisono : plain = {ratio:.2f}** (goal 2)")
    if spm:
        print(
            f"encoding {median(encode):.1f} s, spm_encode ({len(spm)} rounds, 2 at a time) "
            f"{median(spm):.1f} s: "
            f"**unisono : spm_encode = {median(spm) / median(encode):.2f}** (goal 0.9)\n",
            flush=True,
        )
    else:
        print("spm_encode is not installed (Debian: sentencepiece): not compared\n", flush=True)


def opening(text: Preparation) -> None:
    """Print how long opening and planning the first epoch takes, in a fresh process."""
    code = (
        "import sys, time; began = time.perf_counter()\n"
        "from pathlib import Path\n"
        "from unisono.batching.settings import Budget\n"
        "from unisono.batching.stream import Stream\n"
        "from unisono.corpus import open_corpus\n"
        "loaded = time.perf_counter()\n"
        "stream = Stream(open_corpus(Path(sys.argv[1])).split('train'), Budget(), seed=1)\n"
        "next(stream.from_position(1, 0)); count = stream.updates_in(1)\n"
        "print(loaded - began, time.perf_counter() - loaded, count)\n"
    )
    lines = [run([sys.executable, "-c", code, text.corpus]).output.split() for _ in range(3)]
    seconds = median([float(line[1]) for line in lines])
    print(
        f"opening, planning and first batch (median of 3): **{seconds:.2f} s** (goal 5), after "
        f"{median([float(line[0]) for line in lines]):.2f} s of imports; "
        f"{int(lines[0][2]):,} updates an epoch"
    )


def _print_run(name: str, run: tuple[Measured, dict[str, float]], pairs: int) -> None:
    measured, stages = run
    parts = ", ".join(f"{stage} {seconds:.1f}" for stage, seconds in stages.items())
    print(
        f"{name}: {measured.seconds:.1f} s ({parts}), CPU {measured.cpu_seconds:.1f} s, "
        f"{pairs / measured.seconds:,.0f} pairs/s, "
        f"peak {measured.peak_bytes / GIB:.2f} GiB in all processes",
        flush=True,
    )


if __name__ == "__main__":
    main()
