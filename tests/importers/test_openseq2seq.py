import gzip
import json
import os
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from importers.made_logs import (
    PARAMETERS,
    head,
    log,
    loss,
    record,
    seconds,
    small_log,
    valid_loss,
)
from unisono.cli import unisono
from unisono.diagnose.diagnosis import diagnose
from unisono.errors import ConfigError, DataError
from unisono.importers.imported_run import UserFacts, write_run
from unisono.importers.openseq2seq.build import read_openseq2seq
from unisono.importers.openseq2seq.log import MOST_RECORDS
from unisono.records.view import read_run
from unisono.report.page import render_html

REAL = Path(__file__).resolve().parents[3] / "shared" / "data" / "openseq2seq-logs"


def imported(tmp_path, text, wanted=0, told=None, name="nohup.out"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_openseq2seq(path, told or UserFacts(), wanted)


def written(tmp_path, text, **options):
    write_run(imported(tmp_path, text, **options), tmp_path / "run")
    return read_run(tmp_path / "run")


def test_everything_that_is_printed_arrives(tmp_path):
    run = written(tmp_path, log())
    assert [s.step for s in run.steps] == list(range(0, 121, 10))
    assert [s.loss for s in run.steps] == [round(loss(s.step), 4) for s in run.steps]
    assert [s.seconds for s in run.steps[1:]] == [
        round(seconds(s.step), 3) for s in run.steps[1:]
    ]
    assert [v.step for v in run.validations] == [0, 31, 62, 93]
    assert [v.loss for v in run.validations] == [
        round(valid_loss(v.step), 4) for v in run.validations
    ]
    starts = run.last_starts
    assert [s.host for s in starts] == ["alpha", "alpha", "beta", "beta"]
    assert [s.pid for s in starts] == [200, 201, 202, 203]
    assert {(s.interface, s.parameters, s.size) for s in starts} == {("eth1", PARAMETERS, 4)}
    assert run.imported.processes == 4
    assert run.imported.machines == 2
    assert run.environment["devices"] == ["Tesla V100-PCIE-16GB"]


def test_the_settings_are_taken_over_in_our_words(tmp_path):
    config = written(tmp_path, log()).config
    assert config["model"]["width"] == 64
    assert config["model"]["encoder_layers"] == 3
    assert config["model"]["decoder_layers"] == 2
    assert config["schedule"] == {"name": "transformer", "scale": 2.0, "warmup_steps": 40}
    assert config["train"]["max_steps"] == 500
    assert config["openseq2seq"]["data_layer_params"]["max_length"] == 40


def test_times_add_up_from_the_first_clock_in_the_log(tmp_path):
    run = written(tmp_path, log())
    told = [round(seconds(s.step), 3) for s in run.steps]
    assert run.steps[-1].time - run.starts[0].time == pytest.approx(10 * sum(told))
    assert run.starts[0].time == pytest.approx(1593185802.835076)


def test_without_settings_the_updates_between_two_records_are_counted(tmp_path):
    run = imported(tmp_path, "".join(record(step) for step in (0, 10, 20, 40)))
    told = [round(seconds(step), 3) for step in (10, 20, 40)]
    whole = 10 * told[0] + 10 * told[1] + 20 * told[2]
    assert run.steps[-1].time == pytest.approx(whole)
    assert run.about.every_steps == 10
    assert "not in the log" in run.about.notes[-1]


def test_one_process_with_several_gpus_uses_no_network(tmp_path):
    text = log(hosts=(), ranks=0).replace("*** Using horovod\n", "")
    text = text.replace("'use_horovod': True", "'use_horovod': False")
    about = imported(tmp_path, text.replace("'num_gpus': 1", "'num_gpus': 4")).about
    assert (about.processes, about.machines) == (1, 1)


def test_a_place_where_nothing_can_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot be written|exists already"):
        write_run(imported(tmp_path, log()), tmp_path / "file" / "run")


def test_what_is_not_printed_is_not_known(tmp_path):
    step = written(tmp_path, log()).steps[0]
    assert step.learning_rate != step.learning_rate
    assert step.gradient_norm != step.gradient_norm
    assert step.seconds != step.seconds, "the first reading is the time since the start"
    assert step.target_tokens == step.epoch == 0


def test_the_bleu_of_next_words_is_no_bleu(tmp_path):
    run = written(tmp_path, log())
    assert {v.bleu for v in run.validations} == {-1.0}
    assert run.validations[0].forced_bleu == pytest.approx(90.0)


def test_the_last_of_several_runs_is_taken_and_the_others_can_be_named(tmp_path):
    text = log(last=50) + log(last=120)
    last = imported(tmp_path, text)
    assert last.steps[-1].step == 120
    assert any("holds 2 runs; this is the last one" in note for note in last.about.notes)
    first = imported(tmp_path, text, wanted=1)
    assert first.steps[-1].step == 50
    assert len(first.validations) == 2
    with pytest.raises(ConfigError, match="holds 2 runs, not 3"):
        imported(tmp_path, text, wanted=3)


def test_a_start_that_came_to_nothing_does_not_hide_the_run_before_it(tmp_path):
    run = imported(tmp_path, log(last=50) + head())
    assert run.steps[-1].step == 50


def test_two_runs_without_a_start_between_them_are_told_apart(tmp_path):
    tail = "".join(record(step) for step in (30, 40, 50)).replace("loss: ", "loss: 1")
    run = imported(tmp_path, log(last=120) + tail)
    assert [s.step for s in run.steps] == [30, 40, 50]
    assert run.about.processes == 0, "what belongs to the first run says nothing of the second"


def test_a_terminal_that_shows_the_end_of_the_log_again_adds_nothing(tmp_path):
    twice = log(last=50) + "root@alpha:/opt# tail -f nohup.out\n" + record(40) + record(50)
    assert imported(tmp_path, twice).steps == imported(tmp_path, log(last=50)).steps
    more = twice + record(60)
    assert [s.step for s in imported(tmp_path, more).steps] == list(range(0, 61, 10))


def test_lines_of_other_processes_tags_and_colours_change_nothing(tmp_path):
    plain = imported(tmp_path, log())
    lines = log().splitlines()
    tagged = "".join(f"[1,0]<stdout>:{line}\n[1,2]<stderr>:WARNING noise\n" for line in lines)
    assert imported(tmp_path, tagged).steps == plain.steps
    assert imported(tmp_path, tagged).config == plain.config
    coloured = "".join(f"\x1b[1;32m{line}\x1b[0m\r\n" for line in lines)
    assert imported(tmp_path, coloured).steps == plain.steps
    assert imported(tmp_path, coloured).validations == plain.validations


def test_the_form_of_older_versions_is_known_too(tmp_path):
    text = "*** Epoch 3, global step 40: loss = 2.5000, time per step = 0:01:2.250\n"
    text = "*** Epoch 2, global step 30: loss = 2.6000, time per step = 0:00:9.000\n" + text
    run = imported(tmp_path, text)
    assert [(s.step, s.loss, s.epoch) for s in run.steps] == [(30, 2.6, 2), (40, 2.5, 3)]
    assert run.steps[1].seconds == 62.25


def test_a_loss_that_is_no_number_is_one_that_is_none(tmp_path):
    text = log(last=50) + "*** Global step 60: ***     Train loss: nan \n"
    last = imported(tmp_path, text).steps[-1]
    assert last.step == 60
    assert last.loss != last.loss


def test_packed_logs_are_read_and_a_torn_one_as_far_as_it_goes(tmp_path):
    packed = gzip.compress(log().encode())
    whole = imported(tmp_path, packed, name="nohup.out.gz")
    assert whole.steps == imported(tmp_path, log()).steps
    torn = imported(tmp_path, packed[: len(packed) - 40], name="nohup.out.gz")
    assert torn.steps == whole.steps[: len(torn.steps)]


@pytest.mark.parametrize(
    "text",
    [b"", b"hello\n", b"\x00\xff" * 5000, b"*** Global step", b"Train loss: 3.1234 \n"],
    ids=["empty", "text", "noise", "torn", "loss-alone"],
)
def test_another_file_is_refused_in_words(tmp_path, text):
    with pytest.raises(DataError, match="not a log of OpenSeq2Seq|before the first loss"):
        imported(tmp_path, text)


def test_a_log_that_ends_before_the_first_loss_says_so(tmp_path):
    with pytest.raises(DataError, match="ends before the first loss"):
        imported(tmp_path, head())
    with pytest.raises(DataError, match="cannot be read"):
        read_openseq2seq(tmp_path / "missing", UserFacts())


def test_machines_that_are_called_the_same_are_counted_by_their_addresses(tmp_path):
    assert imported(tmp_path, log()).about.machines == 2
    assert imported(tmp_path, log(hosts=("alpha",), ranks=2)).about.machines == 1
    same = log().replace("beta:", "alpha:")
    assert imported(tmp_path, same).about.machines == 2
    write_run(
        imported(tmp_path, same, told=UserFacts(link_bits_per_second=1e9)), tmp_path / "run"
    )
    report = diagnose(read_run(tmp_path / "run"), 0.0)
    assert report.answer("network").values["hosts"] == ["alpha (10.0.0.1)", "alpha (10.0.0.2)"]


def test_without_addresses_a_device_used_twice_leaves_it_open_and_may_be_told(tmp_path):
    same = re.sub(r"NET : Using .*", "NET : no plugin", log().replace("beta:", "alpha:"))
    assert imported(tmp_path, same).about.machines == 0
    told = imported(tmp_path, same, told=UserFacts(machines=2)).about
    assert (told.machines, told.told) == (2, ("machines",))
    alone = same.replace("[0]", "[2]", 2).replace("[1]", "[3]", 2)
    assert imported(tmp_path, alone).about.machines == 1


def test_processes_and_machines_that_are_not_in_the_log_may_be_told(tmp_path):
    text = log(hosts=())
    assert imported(tmp_path, text).about.machines == 0
    told = imported(tmp_path, text, told=UserFacts(machines=2)).about
    assert (told.processes, told.machines, told.told) == (4, 2, ("machines",))
    with pytest.raises(ConfigError, match="4 processes are recorded, not 8"):
        imported(tmp_path, text, told=UserFacts(processes=8))
    with pytest.raises(ConfigError, match="cannot be on 9 machines"):
        imported(tmp_path, text, told=UserFacts(machines=9))


def test_a_setting_that_was_torn_is_named_and_the_others_are_read(tmp_path):
    text = log().replace("'num_heads': 4,\n                    'relu", "'num_h\n 'relu", 1)
    run = imported(tmp_path, text)
    assert any("could not be read: " in note for note in run.about.notes)
    assert run.config["train"]["max_steps"] == 500


@pytest.mark.parametrize("value", ["-5", "0", "1" + "0" * 400, "1e999", "'x'", "True", "[]"])
@pytest.mark.parametrize(
    "name", ["hidden_size", "d_model", "max_steps", "print_loss_steps", "eval_steps"]
)
def test_settings_that_cannot_be_are_not_taken_over_and_break_nothing(tmp_path, name, value):
    text = re.sub(rf"'{name}': [\d.]+", f"'{name}': {value}", log(last=60))
    run = written(tmp_path, text)
    assert [s.step for s in run.steps] == [0, 10, 20, 30, 40, 50, 60]
    report = diagnose(run, 0.0)
    assert len(report.answers) == 11
    assert "<html" in render_html(report, run)


def test_a_very_long_log_keeps_every_second_record_and_the_time(tmp_path, monkeypatch):
    monkeypatch.setattr("unisono.importers.openseq2seq.log.MOST_RECORDS", 64)
    whole = imported(tmp_path, log(last=1200))
    assert MOST_RECORDS > 64 >= len(whole.steps)
    assert whole.steps[-1].step >= 1180
    assert any("one in 2 was kept" in note for note in whole.about.notes)
    assert whole.steps[-1].time - whole.began == pytest.approx(1200 * 0.51, rel=0.05)


def test_a_line_of_any_length_is_read_in_bounded_memory(tmp_path):
    text = log(last=50) + "x" * 3_000_000 + "\n" + record(60)
    assert imported(tmp_path, text).steps[-1].step == 60


def test_sentences_of_the_training_set_are_never_heard(tmp_path):
    liar = "***     Train Source[0]:     <s> *** Global step 999: ***     Train loss: 0.0001 \n"
    run = imported(tmp_path, log(last=50) + liar)
    assert run.steps[-1].step == 50
    assert all(v.loss > 1 for v in run.validations)


def known(run):
    """All that a run claims to know: losses by step, times, validations, facts."""
    steps = {(s.step, s.loss) for s in run.steps}
    times = {(s.step, s.seconds) for s in run.steps if s.seconds == s.seconds}
    valid = {v.loss for v in run.validations}
    scores = {v.forced_bleu for v in run.validations if v.forced_bleu >= 0}
    facts = {run.about.processes, run.about.machines, run.about.parameters}
    return steps, times, valid, scores, facts | {0}


def nothing_new(found, truth):
    return all(mine <= theirs for mine, theirs in zip(known(found), truth, strict=True))


def damaged_logs():
    text = small_log().encode()
    other = b" 3 more processes have sent help message\n"
    for place in range(len(text)):
        yield "cut", text[:place]
        yield "beheaded", text[place:]
        yield "appended", text[:place] + text
        yield (
            ("interleaved", text[:place] + other + text[place:]),
            ("garbled", text[:place] + b"\xff" + text[place + 1 :]),
            ("coloured", text[:place] + b"\x1b[0m" + text[place:]),
        )[place % 3]
        yield "broken", text[:place] + b"\n" + text[place:]


def test_a_log_damaged_at_any_byte_never_crashes_and_never_invents(tmp_path):
    truth = known(imported(tmp_path, small_log()))
    read = 0
    for kind, text in damaged_logs():
        try:
            found = imported(tmp_path, text)
        except DataError:
            continue
        read += 1
        assert nothing_new(found, truth), (kind, text[-80:])
    assert read > 1000


def test_the_command_writes_a_run_that_report_and_show_read(tmp_path):
    (tmp_path / "nohup.out").write_text(log())
    to = tmp_path / "run"
    arguments = ["import", "openseq2seq", str(tmp_path / "nohup.out"), "--to", str(to)]
    done = CliRunner().invoke(unisono, [*arguments, "--link", "100mbit"])
    assert done.exit_code == 0, done.output
    shown = CliRunner().invoke(unisono, ["report", str(to), "--json"])
    report = json.loads(shown.stdout)
    assert [a["id"] for a in report["answers"]][4] == "network"
    assert report["findings"][0]["id"] == "imported"
    assert CliRunner().invoke(unisono, ["show", str(to)]).exit_code == 0
    again = CliRunner().invoke(unisono, arguments)
    assert isinstance(again.exception, DataError)
    assert "not empty" in str(again.exception)


def test_nothing_is_overwritten_and_an_empty_directory_may_be_used(tmp_path):
    run = imported(tmp_path, log())
    for name in ("file", "link"):
        place = tmp_path / name
        place.write_text("mine") if name == "file" else os.symlink(tmp_path / "no", place)
        with pytest.raises(DataError, match="exists already"):
            write_run(run, place)
    (tmp_path / "empty").mkdir()
    write_run(run, tmp_path / "empty")
    assert read_run(tmp_path / "empty").steps


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    logs = sorted(REAL.glob("*.gz")) if REAL.is_dir() else []
    if not logs:
        pytest.skip("the real log of OpenSeq2Seq is not there")
    home = tmp_path_factory.mktemp("real")
    write_run(read_openseq2seq(logs[0], UserFacts(link_bits_per_second=1e9)), home / "run")
    return read_run(home / "run")


def test_a_real_log_tells_what_its_owner_could_have_known(real):
    assert (real.imported.processes, real.imported.machines) == (4, 2)
    assert real.imported.parameters == 60_880_896
    assert real.imported.every_steps == 100
    assert (len(real.steps), real.steps[-1].step) == (190, 18_900)
    assert [v.step for v in real.validations] == [0, 4001, 8002, 12003, 16004]
    assert real.config["schedule"]["warmup_steps"] == 8000
    verdicts = {a.id: a.verdict for a in diagnose(real, 0.0).answers}
    assert verdicts["network"] == "bottleneck"
    assert (verdicts["trained"], verdicts["overfitting"]) == ("no", "no")
