"""How many sentences a second does each translate, with the model it trained itself?

A SMALL model is trained for some minutes with each trainer's own command, in small updates,
since what an untrained one says is as long as it may be. Then its own command translates the
test set with beam 5, 64 sentences or 2,000 tokens at a time, and one sentence alone; the
difference of the two is the time of the others, without start-up.
"""

import json
import os
import shutil
import subprocess
import time
from pathlib import Path

from measure import median

from peers.environment import last_lines
from peers.peer import Peer, Translation, threads
from peers.round import Followed, RoundError, follow
from peers.task import BEAM, SIZES, Job, Texts
from unisono.score import score_bleu

SAVE_EVERY = 25  # updates
TOKENS, WARMUP = 1024, 200  # of an update, updates: this learns sooner
MARK = "\u2581"


def compare_translating(
    work: Path, texts: Texts, players: dict[str, tuple[Peer, Path]], minutes: float, rounds: int
) -> None:
    """Train with each, translate in turns, and print sentences a second."""
    write_one(texts)
    jobs = _train_all(work, texts, players, minutes * 60)
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    said: dict[str, list[str]] = {}
    for _ in range(rounds):
        for name, job in list(jobs.items()):
            peer, python = players[name]
            try:
                whole, said[name] = _translate(peer, python, job, "test")
                seconds[name].append(whole - _translate(peer, python, job, "one")[0])
            except RoundError as error:
                print(f"**{name} failed**: {error}\n", flush=True)
                del jobs[name]
    (work / "translating.json").write_text(json.dumps({"seconds": seconds, "said": said}))
    _print(texts, {name: seconds[name] for name in jobs}, said, minutes)


def write_one(texts: Texts) -> None:
    """Write the first sentence of the test set as a set of its own."""
    for kind in ("", "raw-"):
        for language in ("en", "de"):
            lines = texts.stem(f"{kind}test.{language}").read_text("utf-8").split("\n")
            texts.stem(f"{kind}one.{language}").write_text(lines[0] + "\n", "utf-8")


def _train_all(
    work: Path, texts: Texts, players: dict[str, tuple[Peer, Path]], seconds: float
) -> dict[str, Job]:
    jobs = {}
    for name, (peer, python) in players.items():
        directory = work / "translating" / name.replace(" ", "-")
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        job = Job(
            SIZES["small"],
            texts,
            directory,
            save_every=SAVE_EVERY,
            seconds=seconds,
            tokens=TOKENS,
            warmup=WARMUP,
        )
        if peer.translate(job, python, "test") is None:
            print(f"{name} takes no part in translating\n", flush=True)
            continue
        try:
            _train(peer, python, job)
        except RoundError as error:
            print(f"**{name} failed**: {error}\n", flush=True)
            continue
        jobs[name] = job
    return jobs


def _train(peer: Peer, python: Path, job: Job) -> None:
    def enough(followed: Followed) -> bool:
        if peer.ends_itself:
            return False
        # Well after a save: it is complete.
        updates = followed.updates
        over = updates[-1].time - updates[0].time >= job.seconds
        return over and len(updates) > SAVE_EVERY and len(updates) % SAVE_EVERY > 2

    follow(peer.start(job, python), job.directory / "log.txt", enough, may_end=True)


def _translate(peer: Peer, python: Path, job: Job, split: str) -> tuple[float, list[str]]:
    """Return the seconds it took, and what was said."""
    wanted = peer.translate(job, python, split)
    if wanted is None:
        raise RoundError("it cannot translate")
    log, output = job.directory / f"{split}.log", wanted.result
    output.unlink(missing_ok=True)
    began = time.perf_counter()
    code = _run(wanted, log)
    seconds = time.perf_counter() - began
    if code:
        raise RoundError(f"ended with exit code {code}; {log} ends:\n{last_lines(log)}")
    told = output.read_text("utf-8").split("\n")[:-1]
    lines = [text for text in map(_text, told) if text is not None]
    wanted_lines = len(job.texts.stem(f"{split}.en").read_text("utf-8").split("\n")) - 1
    if len(lines) != wanted_lines:
        raise RoundError(f"{len(lines)} translations of {wanted_lines} sentences: see {output}")
    return seconds, lines


def _run(wanted: Translation, log: Path) -> int:
    given, out = wanted.given or os.devnull, wanted.result if wanted.to_stdout else os.devnull
    with Path(given).open("rb") as stdin, Path(out).open("wb") as stdout, log.open("wb") as err:
        command = [str(part) for part in wanted.command]
        environment = {**os.environ, **threads()}
        return subprocess.run(
            command, env=environment, stdin=stdin, stdout=stdout, stderr=err
        ).returncode


def _text(line: str) -> str | None:
    """Return a line of output as words, or none: fairseq writes more than translations."""
    if line[:2] in ("S-", "W-", "D-", "P-", "H-") and "\t" in line:
        if not line.startswith("H-"):
            return None
        line = line.split("\t")[2]
    return line.replace(" ", "").replace(MARK, " ").strip() if MARK in line else line


def _print(
    texts: Texts, seconds: dict[str, list[float]], said: dict[str, list[str]], minutes: float
) -> None:
    references = texts.stem("raw-test.de").read_text("utf-8").split("\n")[:-1]
    timed = len(references) - 1
    print(f"## Translating {timed + 1:,} sentences, beam {BEAM}, after {minutes:g} min\n")
    print("| trainer | sentences/s | rounds | words a sentence | BLEU |")
    print("|---|---|---|---|---|")
    for name, all_seconds in seconds.items():
        rates = [timed / one for one in all_seconds]
        rounds = ", ".join(f"{rate:.1f}" for rate in rates)
        words = sum(len(line.split()) for line in said[name]) / len(references)
        bleu = score_bleu(said[name], references).score
        print(
            f"| {name} | **{median(rates):.1f}** | {rounds} | {words:.1f} | {bleu:.1f} |",
            flush=True,
        )
    print("\nThe goal: 1.5 times the best peer. A peer whose lengths or BLEU are far off does")
    print("other work, or none: do not compare with it.\n")
