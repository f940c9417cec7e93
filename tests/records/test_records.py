import json
import math

import msgspec
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from unisono.errors import DataError
from unisono.records import events
from unisono.records.events import (
    Ended,
    Sample,
    Started,
    StepTaken,
    Validated,
    from_lines,
    to_line,
)
from unisono.records.recorder import Recorder, TensorBoardSink, describe_environment, redact
from unisono.records.view import read_run
from unisono.small_files import LineWriter, read_lines


def step(number, loss=2.0, **changes):
    values = {
        "time": 100.0 + number,
        "step": number,
        "epoch": 1,
        "loss": loss,
        "gradient_norm": 1.0,
        "learning_rate": 0.25,
        "target_tokens": 100,
        "source_tokens": 90,
        "positions": 200,
        "sentences": 10,
        "seconds": 0.5,
    }
    return StepTaken(**{**values, **changes})


VALIDATED = Validated(
    time=1.0,
    step=2,
    loss=1.5,
    bleu=31.25,
    sentences=3,
    target_tokens=9,
    seconds=0.1,
    clean_training_loss=1.25,
)


def test_events_survive_the_trip_through_a_file():
    ended = Ended(time=1.0, step=2, reason="max_steps", seconds=3.0)
    all_kinds = [step(1), VALIDATED, ended]
    assert list(from_lines(map(to_line, all_kinds))) == all_kinds


def test_what_is_unknown_or_torn_is_passed_over():
    line = to_line(step(1))
    newer = line.replace(b"{", b'{"colour":"red",', 1)
    tomorrow = b'{"kind":"tomorrow","time":1}'
    found = list(from_lines([line, newer, tomorrow, b"[1]", b"7", line[:20], b"\xff"]))
    assert found == [step(1)] * 2


@pytest.mark.parametrize("size", [-1, 0, 2**40])
def test_a_start_with_an_impossible_number_of_processes_is_passed_over(size):
    fields = {"time": 0.0, "step": 0, "rank": 0, "local_rank": 0, "host": "here", "pid": 1}
    fields |= {"device": "cpu", "threads": 1, "strategy": "solo", "parameters": 5}
    start = Started(size=1, updates_per_epoch=8, **fields)
    damaged = to_line(start).replace(b'"size":1,', b'"size":%d,' % size)
    assert list(from_lines([to_line(start), damaged])) == [start]


def test_a_loss_that_is_not_finite_stays_so():
    line = to_line(step(1, loss=math.nan))
    assert json.loads(line)["loss"] is None
    (found,) = from_lines([line])
    assert math.isnan(found.loss)
    assert found.step == 1


def test_a_torn_line_spoils_only_itself(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"a":1}\n{"b":')
    writer = LineWriter(path)
    writer.write(b'{"c":3}')
    writer.close()
    assert list(read_lines(path)) == [b'{"a":1}\n', b'{"b":\n', b'{"c":3}\n']


STARTED = Started(
    time=1.0,
    step=0,
    rank=0,
    size=1,
    local_rank=0,
    host="h",
    pid=1,
    device="cpu",
    threads=1,
    strategy="solo",
    parameters=5,
    updates_per_epoch=3,
)


def write_run(path):
    (path / "config.toml").write_text('seed = 1\nrun = "x"\n')
    recorder = Recorder(path, rank=0, leads=True)
    again = msgspec.structs.replace(STARTED, time=9.0, step=1, checkpoint="step-0000001")
    for event in [STARTED, step(1), step(2, loss=9.0), step(3, loss=9.0)]:
        recorder.write(event)
    for event in [again, step(2, loss=1.0), VALIDATED]:
        recorder.write(event)
    scores = {"bleu": 40.5, "bleu_signature": "s", "sentences": 3, "seconds": 1.0}
    recorder.write(events.Tested(time=2.0, step=2, **scores))
    recorder.close()


def test_a_run_is_read_back_without_what_a_crash_undid(tmp_path):
    write_run(tmp_path)
    view = read_run(tmp_path)
    assert [(s.step, s.loss) for s in view.steps] == [(1, 2.0), (2, 1.0)]
    assert view.validations == (VALIDATED,)
    assert view.config["seed"] == 1
    assert view.hosts == ("h",)
    assert view.environment == {}
    assert len(view.starts) == 2
    assert max(view.seen) == 103.0  # the time of the third step, which was lost
    assert view.undone == 2 * 0.5  # that one, and the second, which was made again


def test_machines_that_are_called_the_same_are_told_apart(tmp_path):
    write_run(tmp_path)
    for rank, host in enumerate(("h", "h", "other")):
        local = 1 if host == "other" else 0
        recorder = Recorder(tmp_path, rank=rank, leads=False)
        where = {"host": host, "local_rank": local, "address": f"10.0.0.{rank + 1}"}
        recorder.write(msgspec.structs.replace(STARTED, rank=rank, size=3, time=20.0, **where))
        recorder.close()
    assert read_run(tmp_path).hosts == ("h (10.0.0.1)", "h (10.0.0.2)", "other")


def test_a_run_cut_at_any_byte_can_be_read(tmp_path):
    write_run(tmp_path)
    file = tmp_path / "events" / "rank-0000.jsonl"
    whole = file.read_bytes()
    for length in range(0, len(whole), 7):
        file.write_bytes(whole[:length])
        assert len(read_run(tmp_path).steps) <= 3


def test_what_is_not_a_run_is_refused(tmp_path):
    with pytest.raises(DataError, match="is not a run directory"):
        read_run(tmp_path)


def test_tensorboards_own_reader_finds_the_same_numbers(tmp_path):
    write_run(tmp_path)
    board = EventAccumulator(str(tmp_path / "tensorboard"))
    board.Reload()
    tags = board.Tags()["scalars"]
    assert {
        "train/loss",
        "train/learning_rate",
        "train/seconds_per_step",
        "train/target_tokens_per_second",
        "eval/loss",
        "eval/bleu",
        "test/bleu",
    } <= set(tags)
    assert [(s.step, s.value) for s in board.Scalars("eval/bleu")] == [(2, 31.25)]
    assert [s.value for s in board.Scalars("eval/clean_training_loss")] == [1.25]
    assert [s.value for s in board.Scalars("train/learning_rate")] == [0.25] * 4
    assert board.Scalars("train/target_tokens_per_second")[0].value == 200.0


def test_tensorboards_own_reader_finds_the_samples(tmp_path):
    sample = Sample("One | two.", "Eins | zwei.", "Eins.")
    told = Validated(
        time=1.0, step=7, loss=2.0, sentences=9, target_tokens=9, seconds=1.0, samples=(sample,)
    )
    sink = TensorBoardSink(tmp_path)
    sink.write(told)
    sink.close()
    board = EventAccumulator(str(tmp_path))
    board.Reload()
    assert "eval/samples" in board.PluginTagToContent("text")
    (shown,) = board.Tensors("eval/samples")
    assert shown.step == 7
    lines = shown.tensor_proto.string_val[0].decode().splitlines()
    assert lines[0] == "| source | reference | translation |"
    assert lines[2] == r"| One \| two. | Eins \| zwei. | Eins. |"


def test_no_secret_is_recorded(monkeypatch):
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")
    monkeypatch.setattr("sys.argv", ["x", "--token=hunter2", "https://me:hunter2@host/x"])
    text = json.dumps(describe_environment(["cpu"]))
    assert "hunter2" not in text
    assert "host/x" in text
    assert redact("password=hunter2 model.width=3") == "password=[redacted] model.width=3"
