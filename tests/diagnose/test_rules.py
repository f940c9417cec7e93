"""Each finding: once where it belongs, and not in a healthy run."""

import math
from random import Random

import msgspec
import pytest

from diagnose.made_runs import BEGAN, CONFIG, curve, healthy_run, now, saved, start, step, team
from unisono.diagnose.diagnosis import diagnose
from unisono.diagnose.rules import RULES
from unisono.records.events import Lost, Warned

LOST = Lost(time=BEGAN + 9, step=9, rank=1, host="beta", pid=7, how="process died")


def ids(run):
    return [finding.id for finding in diagnose(run, now()).findings]


def steps(**parts):
    return {0: tuple(step(n, **parts) for n in range(1, 201))}


def with_losses(loss_of):
    return {0: tuple(step(n, loss=loss_of(n)) for n in range(1, 201))}


def clipped(norm):
    config = {**CONFIG, "train": {**CONFIG["train"], "clip_norm": 1.0}}
    return healthy_run(config=config, ranks=steps(gradient_norm=norm))


def slow_saves():
    quick = tuple(
        step(n, seconds=0.7, time=BEGAN + n, forward=0.2, backward=0.3) for n in range(1, 201)
    )
    return healthy_run(
        ranks={0: quick}, saves=tuple(saved(n, 10.0) for n in (50, 100, 150, 200))
    )


def slow_validations():
    quick = tuple(
        step(n, seconds=0.5, time=BEGAN + n, forward=0.2, backward=0.2) for n in range(1, 201)
    )
    slow = tuple(_seconds(event, 10.0) for event in curve([2.5] * 8))
    return healthy_run(ranks={0: quick}, validations=slow)


def _seconds(event, seconds):
    return msgspec.structs.replace(event, seconds=seconds)


def late(rank, n):
    return {"backward": 0.5 if rank else 0.1, "exchange": 0.02 if rank else 0.42}


def padded():
    made = healthy_run().ranks[0]
    return healthy_run(
        ranks={0: tuple(msgspec.structs.replace(s, positions=4000) for s in made)}
    )


def empty_handed():
    made = curve([2.5] * 5)
    last = msgspec.structs.replace(made[-1], empty=30)
    return healthy_run(validations=(*made[:-1], last))


SICK = {
    "missing_ranks": lambda: healthy_run(starts=(start(0, 2), start(1, 2))),
    "lost_ranks": lambda: healthy_run(losses=(LOST,)),
    "skipped_steps": lambda: healthy_run(
        ranks=with_losses(lambda n: math.nan if n == 70 else 3.0)
    ),
    "loss_spike": lambda: healthy_run(
        ranks=with_losses(lambda n: 9.0 if 120 <= n < 125 else 3.0)
    ),
    "straggler": lambda: team(late, ["a", "b"]),
    "oversubscribed": lambda: healthy_run(environment={"cores": 1}),
    "input_bound": lambda: healthy_run(ranks=steps(data=0.3, backward=0.2)),
    "evaluation_cost": slow_validations,
    "checkpoint_cost": slow_saves,
    "padding": padded,
    "always_clipped": lambda: clipped(3.0),
    "empty_translations": empty_handed,
    "warnings": lambda: healthy_run(warnings=(Warned(time=BEGAN, step=1, message="hot"),)),
}


def test_every_rule_has_a_sick_run():
    assert set(SICK) == set(RULES)


@pytest.mark.parametrize("name", SICK)
def test_a_sick_run_is_found_out(name):
    assert ids(SICK[name]()) == [name]


def test_noisy_healthy_runs_raise_no_alarm():
    for seed in range(20):
        random = Random(seed)
        losses = [2.0 + 6.0 * math.exp(-n / 40) + random.gauss(0, 0.15) for n in range(200)]
        norms = [random.uniform(0.2, 1.5) for _ in range(200)]
        made = tuple(step(n + 1, loss=losses[n], gradient_norm=norms[n]) for n in range(200))
        config = {**CONFIG, "train": {**CONFIG["train"], "clip_norm": 1.0}}
        assert ids(healthy_run(config=config, ranks={0: made})) == []


def test_gradients_clipped_now_and_then_are_fine():
    assert ids(clipped(0.9)) == []


def test_a_single_odd_batch_is_no_spike():
    assert ids(healthy_run(ranks=with_losses(lambda n: 9.0 if n == 120 else 3.0))) == []


def test_empty_translations_early_on_are_normal():
    made = tuple(msgspec.structs.replace(v, empty=300) for v in curve([5.0, 4.9]))
    assert "empty_translations" not in ids(healthy_run(validations=made))
