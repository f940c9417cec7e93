"""How fast do we train, beside the others, on this machine?

    python benchmarks/peers.py [--peers fairseq,eole] [--sizes small,base] [--rounds 3]
                               [--seconds 60] [--precisions fp32,bf16]
    python benchmarks/peers.py --translate --minutes 10 [--peers ...] [--rounds 3]
    python benchmarks/peers.py --quality --minutes 10 [--peers ...]

Every peer gets an environment of its own, the same pieces of Multi30k, the same model and
recipe, and turns of `--seconds`; before and after each turn, matrices are multiplied, because
machines are noisy. A peer that cannot be installed or started is named and left out.

`--translate`: sentences a second, beam 5, by the model each has trained in some minutes.
`--quality`: validation losses over time: when do we have what a peer has at the end?
"""

import argparse
import json
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

from measure import machine
from peers.all_peers import PEERS
from peers.environment import InstallationError, make_environment, version_of
from peers.peer import Peer
from peers.quality import compare_quality
from peers.round import Reading, RoundError, measure_round
from peers.table import Row, print_size
from peers.task import SIZES, TOKENS_PER_UPDATE, Job, Size, Texts, gflop
from peers.texts import prepare_texts
from peers.translating import compare_translating
from peers.unisono_peer import Unisono

MULTI30K = Path(__file__).resolve().parents[2] / "shared" / "data" / "multi30k-en-de"
GEMM = Path(__file__).resolve().parent / "peers" / "gemm.py"


def main() -> None:
    """Measure and print a page of Markdown; the raw readings go to a file beside it."""
    options = _options()
    # An end from outside must still end what was started: SystemExit runs `finally`.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    work = Path(options.directory).resolve()
    if not MULTI30K.is_dir():
        raise SystemExit(f"Multi30k is not at {MULTI30K}: see CORPORA.md beside it")
    print(f"{time.strftime('%Y-%m-%d')}, {machine()}\n", flush=True)
    texts = prepare_texts(work, MULTI30K)
    ways = [int(workers) for workers in options.ours.split(",")]
    ours = [
        Unisono(workers, precision, tuple(options.set))
        for precision in options.precisions.split(",")
        for workers in ways
    ]
    players = _install(work, ours, options.peers.split(","))
    if options.install_only:
        return
    if options.translate:
        compare_translating(work, texts, players, options.minutes, options.rounds)
        return
    if options.quality:
        compare_quality(work, texts, players, options.minutes)
        return
    for name in options.sizes.split(","):
        rows = _take_turns(work, SIZES[name], texts, players, options)
        print_size(SIZES[name], rows)
        raw = [_raw(row) for row in rows]
        path = Path(options.output or work / "readings") / f"peers-{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"machine": machine(), "rows": raw}, indent=1))
        print(f"all readings: {path}\n", flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peers", default=",".join(PEERS), help="which, with commas")
    parser.add_argument("--ours", default="2,1", help="processes of ours, with commas")
    parser.add_argument("--precisions", default="fp32", help="of ours, such as fp32,bf16")
    parser.add_argument("--sizes", default="small,base")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=60, help="of each turn")
    parser.add_argument("--skip", type=int, default=3, help="updates before the clock starts")
    parser.add_argument("--directory", default="/tmp/unisono-peers", help="9 GB of room")
    parser.add_argument("--output", help="where the readings go; else into the directory")
    parser.add_argument("--set", action="append", default=[], help="a setting of ours: a.b=c")
    parser.add_argument("--install-only", action="store_true")
    parser.add_argument("--translate", action="store_true")
    parser.add_argument("--quality", action="store_true")
    parser.add_argument(
        "--minutes", type=float, default=10, help="of training, for the two above"
    )
    return parser.parse_args()


def _install(work: Path, ours: list[Unisono], names: list[str]) -> dict[str, tuple[Peer, Path]]:
    """Return those who can take part, with their Pythons; ourselves first, in each way."""
    players: dict[str, tuple[Peer, Path]] = {
        way.name: (way, Path(sys.executable)) for way in ours
    }
    for name in filter(None, names):
        if name not in PEERS:
            raise SystemExit(f"no peer is called {name}: there are {', '.join(PEERS)}")
        peer = PEERS[name]
        try:
            players[peer.name] = (
                peer,
                make_environment(work / "environments" / name, peer.steps),
            )
        except InstallationError as error:
            print(f"**{peer.name} could not be installed**: {error}\n", flush=True)
    return players


def _take_turns(
    work: Path,
    size: Size,
    texts: Texts,
    players: dict[str, tuple[Peer, Path]],
    options: argparse.Namespace,
) -> list[Row]:
    rows = {
        name: Row(name, version_of(python, peer.package), peer.note)
        for name, (peer, python) in players.items()
    }
    before = _gemm(size, texts)
    for number in range(1, options.rounds + 1):
        for name, (peer, python) in players.items():
            if rows[name].failure:
                continue
            try:
                reading = _turn(work, size, texts, peer, python, options)
            except (RoundError, subprocess.CalledProcessError) as error:
                rows[name].failure = str(error)
                print(f"**{name} failed**: {error}\n", flush=True)
                continue
            after = _gemm(size, texts)
            rate = gflop(
                size,
                texts.vocabulary,
                reading.sentences,
                reading.source_tokens,
                reading.target_tokens,
            )
            rows[name].add(reading, rate / reading.seconds, (before, after))
            _say(number, rows[name], reading)
            before = after
    return list(rows.values())


def _turn(
    work: Path, size: Size, texts: Texts, peer: Peer, python: Path, options: argparse.Namespace
) -> Reading:
    directory = work / "turns" / f"{peer.name.replace(' ', '-')}-{size.name}"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    start = peer.start(Job(size, texts, directory), python)
    return measure_round(start, directory / "log.txt", options.seconds, options.skip)


def _gemm(size: Size, texts: Texts) -> float:
    model = size.model
    sizes = (model.width, model.inner, texts.vocabulary, TOKENS_PER_UPDATE)
    done = subprocess.run(
        [sys.executable, GEMM, *map(str, sizes)], capture_output=True, text=True, check=True
    )
    return float(done.stdout)


def _say(number: int, row: Row, reading: Reading) -> None:
    print(
        f"    round {number} {row.name}: {reading.tokens_per_second:,.0f} tokens/s, "
        f"{row.gflops[-1]:.1f} GFLOP/s in {reading.updates} updates of "
        f"{reading.target_tokens / reading.updates:,.0f} tokens, "
        f"{reading.peak_bytes / 1e6:,.0f} MB, GEMM {row.gemms[-1][0]:.0f} before and "
        f"{row.gemms[-1][1]:.0f} after",
        file=sys.stderr,
        flush=True,
    )


def _raw(row: Row) -> dict[str, object]:
    readings = [asdict(reading) for reading in row.readings]
    return {
        "name": row.name,
        "version": row.version,
        "note": row.note,
        "failure": row.failure,
        "readings": readings,
        "gflops": row.gflops,
        "gemm": row.gemms,
    }


if __name__ == "__main__":
    main()
