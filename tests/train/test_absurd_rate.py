"""A rate that is out of all proportion is noticed in the first updates, not after hours."""

import pytest
import torch

from support.tiny import tiny_settings
from train.test_resume import final_state, link_corpus
from unisono.comm.group import Solo
from unisono.errors import RunError
from unisono.models.transformer import build_model
from unisono.records.events import RolledBack, Saved, StepTaken
from unisono.records.view import read_run
from unisono.report.page import write_report
from unisono.train.averages import SUFFIX
from unisono.train.checkpoints import checkpoint
from unisono.train.checkpoints.state import model_tensors
from unisono.train.divergence_guard import EARLIEST
from unisono.train.job import run_with
from unisono.train.process_setup import set_randomness


@pytest.fixture
def settings(corpus_home, tmp_path):
    torch.set_num_threads(1)
    return tiny_settings(
        link_corpus(corpus_home, tmp_path),
        schedule={"name": "constant", "peak": 10.0},
        train={"max_steps": 1000, "average": 0.9},
        validation={"every_steps": 10, "bleu": False},
        checkpoint={"every_steps": 20},
    )


def test_it_goes_back_to_the_start_three_times_and_then_ends(settings, tmp_path):
    with pytest.raises(RunError, match="diverged .* after 3 roll-backs") as error:
        list(run_with(Solo(), settings))
    assert error.value.where == "no checkpoint was good"
    view = read_run(tmp_path / "run")
    assert [w.message.partition(": ")[2] for w in view.warnings] == [
        f"went back to the start, with {factor} of the learning rate and the data that follow"
        for factor in (0.5, 0.25, 0.125)
    ]
    assert len(view.seen) < 5 * (EARLIEST + 10)  # each time as soon as it can be known
    assert write_report(tmp_path / "run").answer("duration").summary


def test_the_start_gone_back_to_is_the_start(settings, tmp_path):
    going, saved = run_with(Solo(), settings), []
    for event in going:
        saved += [event.name] if isinstance(event, Saved) else []
        if saved[-1:] == ["step-0000000"]:
            break
    going.close()
    assert "step-0000020" in saved  # no longer there, because it was on the way to the spike
    home = tmp_path / "run" / "checkpoints"
    assert checkpoint.names(home) == ["step-0000000"]
    assert (checkpoint.pointed(home, "latest"), checkpoint.pointed(home, "best")) == (
        "step-0000000",
        "",
    )
    found = final_state(tmp_path / "run", 0)
    set_randomness(settings.seed)
    model = build_model(settings.model, 64)
    for name, value in model_tensors(model).items():
        assert found["model.safetensors"].pop(name).tobytes() == value.numpy().tobytes(), name
        average = found["optimizer.safetensors"].pop(name + SUFFIX)
        assert average.tobytes() == value.numpy().tobytes(), name
    assert not any(found.values())  # neither other weights, nor moments of any


def test_killed_after_it_went_back_it_knows_of_it(settings):
    for kind in (RolledBack, Saved):
        going, seen = run_with(Solo(), settings), False
        for event in going:
            seen = seen or isinstance(event, RolledBack)
            if seen and isinstance(event, kind):
                break
        going.close()
    going = run_with(Solo(), settings)
    first = next(event for event in going if isinstance(event, StepTaken))
    going.close()
    assert (first.step, first.learning_rate) == (1, 5.0)
