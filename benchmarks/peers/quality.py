"""How soon is a validation loss reached that a peer needs all its time for?

Losses are nats a target token, without smoothing, on the same pieces. The clock starts with
the process and counts validations, too: everyone has the same set to go through, as often.
"""

import json
import shutil
from pathlib import Path

from peers.peer import Peer, Validation
from peers.round import Followed, RoundError, follow
from peers.table import OURS
from peers.task import SIZES, Job, Texts

VALIDATE_EVERY = 50  # updates
GOAL = 0.6  # of the peer's time

Curve = list[tuple[float, float]]


def compare_quality(
    work: Path, texts: Texts, players: dict[str, tuple[Peer, Path]], minutes: float
) -> None:
    """Train a SMALL model with each for `minutes`; print when we reached the others' loss."""
    curves: dict[str, Curve] = {}
    for name, (peer, python) in players.items():
        directory = work / "quality" / name.replace(" ", "-")
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        job = Job(SIZES["small"], texts, directory, validate_every=VALIDATE_EVERY)
        try:
            curve = _curve(peer, job, python, minutes * 60)
        except RoundError as error:
            print(f"**{name} failed**: {error}\n", flush=True)
            continue
        if curve:
            curves[name] = curve
        else:
            print(f"{name} told no validation loss in {minutes:g} min\n", flush=True)
    (work / "quality" / "curves.json").write_text(json.dumps(curves, indent=1))
    _print(curves, minutes)


def _curve(peer: Peer, job: Job, python: Path, seconds: float) -> Curve:
    def enough(followed: Followed) -> bool:
        return followed.updates[-1].time - followed.began >= seconds

    followed = follow(peer.start(job, python), job.directory / "log.txt", enough)
    return [_point(told, followed.began) for told in followed.validations]


def _point(told: Validation, began: float) -> tuple[float, float]:
    return told.time - began, told.loss


def _print(curves: dict[str, Curve], minutes: float) -> None:
    print(f"## Validation loss within {minutes:g} min, SMALL\n")
    print("| trainer | validations | lowest loss | when (s) | seconds of ours to it |")
    print("|---|---|---|---|---|")
    ours = [curve for name, curve in curves.items() if name.startswith(OURS)]
    for name, curve in curves.items():
        when, loss = min(curve, key=lambda point: point[1])
        reached = [time for one in ours for time, ours_loss in one if ours_loss <= loss]
        soon = f"**{min(reached):.0f}**" if reached else "not reached"
        print(f"| {name} | {len(curve)} | {loss:.3f} | {when:.0f} | {soon} |")
    print(f"\nThe goal: at most {GOAL * minutes:g} min to the loss of the best peer.\n")
