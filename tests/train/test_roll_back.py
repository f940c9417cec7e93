"""A run whose rate is too high goes back, goes on at half of it, and can be killed meanwhile.

The rate rises until plain gradient descent explodes, at about step 30; half of it is fine
for long enough. With a checkpoint every 5 updates there is one to go back to, with one every
1000 only the start.
"""

import signal
from pathlib import Path

import msgspec
import pytest
import torch

from support.tiny import tiny_settings
from train.test_resume import assert_identical, final_state, link_corpus
from unisono.comm.group import Solo
from unisono.errors import RunError
from unisono.records.events import Ended, RolledBack, Saved, StepTaken
from unisono.records.view import read_run
from unisono.train.averages import Averages
from unisono.train.checkpoints.checkpoint_sync import CheckpointSync, roll_back
from unisono.train.divergence_guard import Guard
from unisono.train.job import run_with
from unisono.train.progress import Progress, after_validation

LAST = 44


def exploding(home, run, every=5, **train):
    return tiny_settings(
        Path(home),
        run,
        optimizer={"name": "sgd"},
        schedule={"name": "inverse_sqrt", "peak": 7.0, "warmup_steps": 48},
        train={"max_steps": LAST, **train},
        validation={"every_steps": 1000, "bleu": False},
        checkpoint={"every_steps": every},
    )


def train(comm, home, run, deaths=(), **table):
    """Train; drop everything in memory after so many events each time, and start again."""
    torch.set_num_threads(1)
    events = []
    for death in (*deaths, 10**9):
        going = run_with(comm, exploding(home, run, **table))
        for _, event in zip(range(death), going, strict=False):
            events.append(event)
        going.close()
    return events


def train_as(comm, home, run, deaths, tables):
    return train(comm, home, run, deaths, **tables)


def find(events, kind):
    return [event for event in events if isinstance(event, kind)]


def test_a_run_that_explodes_goes_back_and_goes_on_at_half_the_rate(corpus_home, tmp_path):
    home = link_corpus(corpus_home, tmp_path)
    events = train(Solo(), home, "run")
    back = find(events, RolledBack)[0]
    assert 25 < back.step < LAST
    assert 0 < back.to_step < 30
    assert (back.rate_factor, back.number) == (0.5, 1)
    place = events.index(back)
    assert isinstance(events[place + 1], Saved)
    before, behind = find(events[:place], StepTaken), find(events[place:], StepTaken)
    schedule = exploding(home, "run").schedule
    assert all(step.learning_rate == schedule(step.step) for step in before)
    assert all(step.learning_rate == schedule(step.step) / 2 for step in behind)
    assert [step.step for step in behind] == list(range(back.to_step + 1, LAST + 1))
    assert max(step.loss for step in before) > 10
    assert max(step.loss for step in behind) < 4
    assert events[-1].step == LAST
    view = read_run(home / "run")
    assert [step.step for step in view.steps] == list(range(1, LAST + 1))
    assert max(step.loss for step in view.steps) < 5
    assert "went back to step" in view.warnings[0].message


def test_the_data_of_the_spike_are_passed_over(corpus_home, tmp_path):
    home = link_corpus(corpus_home, tmp_path)
    events = train(Solo(), home, "run")
    taken = find(events, StepTaken)
    updates_per_epoch = events[0].updates_per_epoch
    # Every update the run ever took, undone or not, is the next one of the plan.
    epochs = [1 + number // updates_per_epoch for number in range(len(taken))]
    assert [step.epoch for step in taken] == epochs
    assert len(taken) > LAST


def test_before_any_checkpoint_proved_good_it_goes_back_to_the_start(corpus_home, tmp_path):
    home = link_corpus(corpus_home, tmp_path)
    events = train(Solo(), home, "run", every=1000, average=0.9)
    back = find(events, RolledBack)[0]
    assert 25 < back.step < LAST
    assert (back.to_step, back.rate_factor, back.number) == (0, 0.5, 1)
    assert "went back to the start, with 0.5 of the learning rate" in back.message
    place = events.index(back)
    assert (events[place + 1].name, events[place + 2].step) == ("step-0000000", 1)
    first, again = find(events, StepTaken)[0], events[place + 2]
    assert again.loss == pytest.approx(first.loss, abs=0.3)  # untrained again, on other data
    assert again.loss != first.loss
    assert max(step.loss for step in find(events[place:], StepTaken)) < 5
    assert [step.step for step in read_run(home / "run").steps] == list(range(1, LAST + 1))


@pytest.mark.parametrize(("every", "average"), [(5, 0.0), (1000, 0.9)])
def test_killed_at_any_moment_around_a_roll_back_it_ends_in_the_same_bits(
    corpus_home, tmp_path, every, average
):
    home = link_corpus(corpus_home, tmp_path)
    tables = {"every": every, "average": average}
    events = train(Solo(), home, "whole", **tables)
    place = events.index(find(events, RolledBack)[0])
    # In the spike; when it is told but not saved; when it is saved; later.
    deaths = (place - 5, place + 1, place + 2, place + 9)
    for number, death in enumerate(deaths if every == 5 else deaths[2:3]):
        again = train(Solo(), home, f"parts-{number}", [death], **tables)
        assert len(find(again, Ended)) == 1
        same = final_state(home / f"parts-{number}", LAST)
        assert_identical(final_state(home / "whole", LAST), same)
        assert len(read_run(home / f"parts-{number}").warnings) == 1


def test_stopped_by_a_signal_before_the_spike_it_takes_no_other_course(corpus_home, tmp_path):
    home = link_corpus(corpus_home, tmp_path)
    whole = train(Solo(), home, "whole")
    torch.set_num_threads(1)
    for event in run_with(Solo(), exploding(home, "parts")):
        if isinstance(event, StepTaken) and event.step == 2:
            signal.raise_signal(signal.SIGTERM)
    again = train(Solo(), home, "parts")
    assert find(again, StepTaken)[0].step == 4
    assert [e.to_step for e in find(again, RolledBack)] == [
        e.to_step for e in find(whole, RolledBack)
    ]
    assert_identical(final_state(home / "whole", LAST), final_state(home / "parts", LAST))


@pytest.mark.ranks
@pytest.mark.parametrize(
    ("ranks", "every", "average"), [(4, 5, 0.0), (2, 1000, 0.9)], indirect=["ranks"]
)
def test_all_processes_go_back_together(ranks, corpus_home, tmp_path, every, average):
    home, tables = link_corpus(corpus_home, tmp_path), {"every": every, "average": average}
    found = ranks.run(train_as, str(home), "whole", (), tables)
    backs = [[(e.step, e.to_step) for e in find(events, RolledBack)] for events in found]
    assert len(backs[0]) == 1
    assert (backs[0][0][1] == 0) == (every == 1000)
    assert all(back == backs[0] for back in backs)
    place = found[0].index(find(found[0], RolledBack)[0])
    for number, death in enumerate((place + 1, place + 6)):
        ranks.run(train_as, str(home), f"parts-{number}", [death], tables)
        same = final_state(home / f"parts-{number}", LAST)
        assert_identical(final_state(home / "whole", LAST), same)


def test_without_the_guard_nobody_goes_back(corpus_home, tmp_path):
    home = link_corpus(corpus_home, tmp_path)
    events = []
    with pytest.raises(RunError, match="20 updates in a row were not finite"):
        for event in run_with(Solo(), exploding(home, "run", guard=False, max_steps=100)):
            events.append(event)
    assert find(events, StepTaken)
    assert not find(events, RolledBack)


def test_after_three_roll_backs_the_run_ends(tmp_path):
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters())
    checkpoints = CheckpointSync(
        tmp_path, 2, Solo(), model, optimizer, Averages(), lambda: model
    )
    progress = Progress(step=90, roll_backs=3, rate_factor=0.125, guard=Guard(safe=(50, 0)))
    with pytest.raises(RunError, match="after 3 roll-backs and at 0.125 of its learning rate"):
        next(roll_back(checkpoints, progress, "the loss rose"))


def test_a_score_that_is_no_number_is_never_the_best():
    nan = float("nan")
    first = after_validation(Progress(step=1), loss=nan, bleu=0.0, by="loss", seconds=0)
    assert (first.best_step, first.validations_since_best) == (0, 1)
    good = after_validation(Progress(step=2), loss=3.0, bleu=0.0, by="loss", seconds=0)
    assert good.best_step == 2
    for by in ("loss", "bleu"):
        bad = after_validation(good, loss=nan, bleu=50.0, by=by, seconds=0)
        assert (bad.best_loss, bad.validations_since_best) == (3.0, 1)


def test_chrf_may_choose_the_best_against_bleu():
    scores = {"loss": 3.0, "seconds": 0, "by": "chrf"}
    first = after_validation(Progress(step=1), bleu=30.0, chrf=50.0, **scores)
    second = msgspec.structs.replace(first, step=2)
    assert after_validation(second, bleu=20.0, chrf=51.0, **scores).best_step == 2
    assert after_validation(second, bleu=40.0, chrf=49.0, **scores).best_step == 1
