import math
import struct

import pytest
from click.testing import CliRunner
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.compat.proto.event_pb2 import Event as Record
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.types_pb2 import DT_FLOAT
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from diagnose.made_runs import healthy_run
from unisono.cli import unisono
from unisono.errors import DataError
from unisono.importers.imported_run import UserFacts, write_run
from unisono.importers.tensorboard.build import read_tensorboard
from unisono.importers.tensorboard.event_files import Damage, masked_checksum, records_of
from unisono.records.recorder import TensorBoardSink
from unisono.records.view import read_run

BEGAN = 1_700_000_000.0


def write(directory, rows, suffix=""):
    """Write rows of step, seconds since the start and scalars as a trainer would."""
    writer = EventFileWriter(str(directory), filename_suffix=suffix)
    for step, time, numbers in rows:
        values = [
            v if isinstance(v, Summary.Value) else Summary.Value(tag=tag, simple_value=v)
            for tag, v in numbers.items()
        ]
        record = Record(wall_time=BEGAN + time, step=step, summary=Summary(value=values))
        writer.add_event(record)
    writer.close()
    return next(directory.glob(f"*tfevents*{suffix}"))


def hugging_face(directory, suffix="", steps=range(10, 101, 10)):
    rows = [
        (
            n,
            2.0 * n,
            {"train/loss": 9 - n / 20, "train/learning_rate": 1e-4, "train/epoch": 0.5},
        )
        for n in steps
    ]
    rows += [(n, 2.0 * n + 1, {"eval/loss": 8 - n / 20, "eval/bleu": n / 5}) for n in (50, 100)]
    return write(directory, sorted(rows, key=lambda row: row[1]), suffix)


def test_the_checksum_is_that_of_the_standard():
    # CRC-32C of "123456789" is 0xE3069283; event files turn it and add a constant.
    turned = (0xE3069283 >> 15 | 0xE3069283 << 17) & 0xFFFFFFFF
    assert masked_checksum(b"123456789") == (turned + 0xA282EAD8) & 0xFFFFFFFF


def test_all_records_that_tensorboard_reads_are_read(tmp_path):
    path = hugging_face(tmp_path)
    theirs = EventAccumulator(str(path)).Reload().Scalars("train/loss")
    run = read_tensorboard(tmp_path, UserFacts())
    assert [(s.step, s.time) for s in run.steps] == [(e.step, e.wall_time) for e in theirs]
    assert [s.loss for s in run.steps] == pytest.approx([e.value for e in theirs])


def test_tags_of_hugging_face(tmp_path):
    hugging_face(tmp_path)
    run = read_tensorboard(tmp_path, UserFacts())
    assert run.about.trainer == "Hugging Face (TensorBoard)"
    assert run.about.every_steps == 10
    assert [s.seconds for s in run.steps[1:]] == pytest.approx([2.0] * 9)
    assert math.isnan(run.steps[0].seconds)
    assert [(v.step, v.bleu) for v in run.validations] == [(50, 10.0), (100, 20.0)]
    assert run.about.processes == 0


def test_the_pause_between_two_starts_is_not_a_step(tmp_path):
    hugging_face(tmp_path, suffix=".1", steps=range(10, 101, 10))
    rows = [(n, 86_400 + 2.0 * n, {"train/loss": 4.0}) for n in range(110, 201, 10)]
    write(tmp_path, rows, ".2")
    steps = read_tensorboard(tmp_path, UserFacts()).steps
    assert [s.step for s in steps if math.isnan(s.seconds)] == [10, 110]
    assert [s.seconds for s in steps if s.step not in (10, 110)] == pytest.approx([2.0] * 18)


def test_tags_of_fairseq_have_a_directory_each_and_are_in_bits(tmp_path):
    rows = [(n, n, {"loss": 6.0, "nll_loss": 4.0, "wps": 500.0, "lr": 0.1}) for n in (10, 20)]
    write(tmp_path / "train_inner", rows)
    write(tmp_path / "valid", [(20, 21.0, {"loss": 5.0, "nll_loss": 3.0, "bleu": 30.0})])
    run = read_tensorboard(tmp_path, UserFacts())
    assert run.about.trainer.startswith("fairseq")
    assert [s.loss for s in run.steps] == pytest.approx([4.0 * math.log(2)] * 2)
    assert run.validations[0].loss == pytest.approx(3.0 * math.log(2))
    assert (run.steps[1].seconds, run.steps[1].target_tokens) == (1.0, 500)


def test_tags_of_opennmt_and_eole(tmp_path):
    rows = [
        (n, n, {"progress/xent": 3.0, "progress/lr": 0.5, "train/xent": 9.0}) for n in (1, 2)
    ]
    write(tmp_path, [*rows, (2, 3.0, {"valid/xent": 2.5, "valid/ppl": 12.2})])
    run = read_tensorboard(tmp_path, UserFacts())
    assert [s.loss for s in run.steps] == [3.0, 3.0]
    assert run.validations[0].loss == 2.5


def test_our_own_event_files_come_back_as_they_were(tmp_path):
    events = healthy_run()
    sink = TensorBoardSink(tmp_path)
    for event in (*events.steps, *events.validations):
        sink.write(event)
    sink.close()
    run = read_tensorboard(tmp_path, UserFacts())
    assert run.about.trainer.startswith("Unisono")
    assert [s.loss for s in run.steps] == pytest.approx([s.loss for s in events.steps])
    assert [s.seconds for s in run.steps] == [s.seconds for s in events.steps]
    assert [s.target_tokens for s in run.steps] == [s.target_tokens for s in events.steps]
    assert [v.bleu for v in run.validations] == [v.bleu for v in events.validations]


def test_scalars_in_tensors_are_read_and_pictures_are_not(tmp_path):
    number = TensorProto(dtype=DT_FLOAT, tensor_content=struct.pack("<f", 2.5))
    listed = TensorProto(dtype=DT_FLOAT, float_val=[1.5])
    table = TensorProto(dtype=DT_FLOAT, float_val=[1.5, 2.5])
    values = [
        {"train/loss": Summary.Value(tag="train/loss", tensor=tensor)}
        for tensor in (number, listed, table)
    ]
    write(tmp_path, [(n, n, row) for n, row in enumerate(values, start=1)])
    assert [s.loss for s in read_tensorboard(tmp_path, UserFacts()).steps] == [2.5, 1.5]


def test_a_run_that_was_continued_counts_from_where_it_went_on(tmp_path):
    hugging_face(tmp_path, ".1", steps=range(10, 101, 10))
    hugging_face(tmp_path, ".2", steps=range(60, 131, 10))
    steps = [s.step for s in read_tensorboard(tmp_path, UserFacts()).steps]
    assert steps == list(range(10, 131, 10))


def test_several_runs_are_not_mixed(tmp_path):
    hugging_face(tmp_path / "one")
    hugging_face(tmp_path / "two")
    with pytest.raises(DataError, match="holds 2 runs"):
        read_tensorboard(tmp_path, UserFacts())
    write(tmp_path / "one" / "1593.8", [(0, 0.0, {"hparam/lr": 1.0})])
    assert read_tensorboard(tmp_path / "one", UserFacts()).steps


def test_a_bleu_whose_scale_cannot_be_told_is_left_out(tmp_path):
    write(tmp_path, [(n, n, {"eval/loss": 2.0, "eval/bleu": 0.2}) for n in (1, 2)])
    run = read_tensorboard(tmp_path, UserFacts())
    assert {v.bleu for v in run.validations} == {-1.0}
    assert any("BLEU is left out" in note for note in run.about.notes)


@pytest.mark.parametrize("name", ["nothing", "text", "foreign"])
def test_another_directory_is_refused_in_words(tmp_path, name):
    if name == "text":
        (tmp_path / "events.out.tfevents.1").write_text("hello")
    if name == "foreign":
        write(tmp_path, [(1, 1.0, {"reward/mean": 1.0})])
    with pytest.raises(DataError, match="no event files|no tag of"):
        read_tensorboard(tmp_path, UserFacts())
    with pytest.raises(DataError, match="does not exist"):
        read_tensorboard(tmp_path / "missing", UserFacts())


def test_a_torn_end_is_normal_and_a_damaged_record_costs_itself_alone(tmp_path):
    path = hugging_face(tmp_path)
    whole = path.read_bytes()
    records = list(records_of(path, Damage()))
    path.write_bytes(whole[:-3])
    run = read_tensorboard(tmp_path, UserFacts())
    assert any("end within a record" in note for note in run.about.notes)
    middle = whole.index(records[5]) + 4
    path.write_bytes(whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :])
    damage = Damage()
    assert list(records_of(path, damage)) == [r for r in records if r != records[5]]
    assert (damage.records, damage.torn) == (1, 0)
    assert any("1 damaged" in n for n in read_tensorboard(tmp_path, UserFacts()).about.notes)


def test_damage_at_any_byte_costs_one_record_and_never_invents(tmp_path):
    rows = [(n, n, {"train/loss": 3.0 + n, "eval/loss": 2.0 + n}) for n in range(6)]
    path = write(tmp_path, rows)
    whole, copy = path.read_bytes(), tmp_path / "copy"
    records = list(records_of(path, Damage()))
    for place in range(len(whole)):
        copy.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        left = list(records_of(copy, Damage()))
        assert set(left) <= set(records)
        assert len(left) >= len(records) - 2, place
        copy.write_bytes(whole[:place])
        assert records[: len(left := list(records_of(copy, Damage())))] == left
        copy.write_bytes(whole[place:])
        assert set(records_of(copy, Damage())) <= set(records)


def test_the_command_writes_a_run_that_can_be_reported(tmp_path):
    hugging_face(tmp_path / "tb")
    to = tmp_path / "run"
    done = CliRunner().invoke(
        unisono, ["import", "tensorboard", str(tmp_path / "tb"), "--to", str(to)]
    )
    assert done.exit_code == 0, done.output
    shown = CliRunner().invoke(unisono, ["report", str(to)])
    assert shown.exit_code == 0, shown.output
    assert "Imported from Hugging Face" in shown.output
    assert "the number of parameters are not known" in " ".join(shown.output.split())
    assert len(read_run(to).steps) == 10


def test_a_run_without_any_training_loss_still_has_its_validations(tmp_path):
    write(tmp_path / "tb", [(n, n, {"eval/loss": 2.0}) for n in (1, 2)])
    write_run(read_tensorboard(tmp_path / "tb", UserFacts()), tmp_path / "run")
    shown = CliRunner().invoke(unisono, ["report", str(tmp_path / "run")])
    assert shown.exit_code == 0, shown.exception
