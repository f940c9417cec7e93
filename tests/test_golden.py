"""Old files are read as they were written: one sample of each format and age.

The corpus has its own in tests/corpus/golden.
"""

import json
import shutil
from pathlib import Path

import torch

from unisono.bundle.reader import open_bundle
from unisono.config.load import resolve
from unisono.diagnose.diagnosis import diagnose
from unisono.models.output import token_losses
from unisono.records.layout import RunDirectory
from unisono.records.monitor_events import read_machines
from unisono.records.view import read_run
from unisono.report.page import render_html
from unisono.text.tokenizer import BEGIN_ID, END_ID
from unisono.train.checkpoints import checkpoint

GOLDEN = Path(__file__).parent / "golden"


def test_a_run_of_format_1_is_read_and_reported():
    view = read_run(GOLDEN / "run-1")
    assert [step.step for step in view.steps] == list(range(1, 121))
    assert [validation.step for validation in view.validations] == [40, 80, 120]
    assert view.samples[120][0].reference
    assert view.sentence_losses.at_step == {}
    assert view.validations[0].clean_training_loss == view.tests[0].bleu_low == -1
    report = diagnose(view, now=view.seen[-1] + 1)
    assert report.answer("duration").verdict == "finished"
    assert report.answer("training_set").verdict == "answered"
    assert "<svg" in render_html(report, view)


def test_samples_of_format_1_are_read(tmp_path):
    (tmp_path / "monitor").mkdir()
    shutil.copy(GOLDEN / "monitor-1.jsonl", tmp_path / "monitor" / "rank-0002.jsonl")
    log = read_machines(RunDirectory(tmp_path))[2]
    assert (log.host, log.machines[0].pids, log.machines[0].cores) == ("node1", [7, 8], 2)
    assert log.machines[0].interfaces["eth0"].addresses == ["10.88.0.2/24"]
    first, second = log.samples
    assert second.interfaces["eth0"].sent - first.interfaces["eth0"].sent == 11_500_000
    assert second.peers["10.88.0.1"].busy == 1.2
    assert (second.own_cpu, second.steal, second.cores) == (3.5, 0.01, [0.9, 0.7])
    assert (second.gpus[0].watts, second.gpus[0].throttled) == (41.5, ["power limit"])
    assert (second.own_read, second.gpus[0].others) == (None, None)
    assert log.warnings[0].message == "odd"


def test_samples_of_format_1_with_the_runs_own_share_are_read(tmp_path):
    (tmp_path / "monitor").mkdir()
    golden = GOLDEN / "monitor-1-own-share.jsonl"
    shutil.copy(golden, tmp_path / "monitor" / "rank-0000.jsonl")
    first, second = read_machines(RunDirectory(tmp_path))[0].samples
    assert (second.own_read, second.own_written - first.own_written) == (0, 400_000)
    assert (second.gpus[0].own_memory, second.gpus[0].others) == (7 * 10**9, 1)


def test_the_settings_of_an_old_run_still_load():
    assert resolve(read_run(GOLDEN / "run-1").config, where="golden").model.width == 24


def test_a_checkpoint_of_format_1_is_loaded():
    name, troubles = checkpoint.newest(GOLDEN / "run-1" / "checkpoints")
    assert (name, troubles) == ("step-0000120", [])
    loaded = checkpoint.load(GOLDEN / "run-1" / "checkpoints" / name)
    assert (loaded.progress.step, loaded.progress.epoch) == (120, 15)
    assert {key.rpartition("/")[2] for key in loaded.optimizer} == {
        "exp_avg",
        "exp_avg_sq",
        "step",
    }


def test_a_checkpoint_of_format_2_is_loaded_with_what_the_exchange_kept():
    name, troubles = checkpoint.newest(GOLDEN / "checkpoints-2")
    assert (name, troubles) == ("step-0000002", [])
    loaded = checkpoint.load(GOLDEN / "checkpoints-2" / name)
    assert loaded.exchange.keys() == {
        f"{rank}/{weight}/gradient_left_over" for rank in (0, 1) for weight in loaded.model
    }
    assert any(tensor.any() for tensor in loaded.exchange.values())


def test_a_bundle_of_format_1_says_what_it_said():
    bundle = open_bundle(GOLDEN / "bundle-1")
    ids = bundle.tokenizers.source.encode(["one two three", "drei zwei eins"])
    source = torch.tensor([[*ids[0], END_ID]])
    target_in, target_out = (
        torch.tensor([[BEGIN_ID, *ids[1]]]),
        torch.tensor([[*ids[1], END_ID]]),
    )
    loss = token_losses(bundle.model(), source, target_in, target_out)
    remembered = json.loads((GOLDEN / "bundle-1-loss.json").read_text())
    torch.testing.assert_close(loss, torch.tensor(remembered))  # as exact as float32 is
    assert bundle.translator().translate(["", "one"])[0] == ""
