"""What a report says about imported runs, and what it does not say."""

import math
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from diagnose.made_runs import healthy_run, start, step, validated
from importers.made_logs import log
from unisono.cli import unisono
from unisono.diagnose.diagnosis import diagnose
from unisono.diagnose.report import QUESTIONS
from unisono.errors import DataError
from unisono.importers.imported_run import UserFacts, write_run
from unisono.importers.openseq2seq.build import read_openseq2seq
from unisono.records.view import Imported, RunView, read_run
from unisono.report.comparison import compare_runs
from unisono.report.page import render_html
from unisono.report.text import render_markdown, render_text

GOLDEN = Path(__file__).parents[1] / "golden" / "imported-1"
PARAMETERS = 60_880_896


def view(seconds, *, mbit=0.0, measured=False, processes=4, machines=2, parameters=PARAMETERS):
    """A run of which a log told this step time, and nothing about the network."""
    about = Imported(
        trainer="OpenSeq2Seq",
        source="nohup.out",
        every_steps=100,
        processes=processes,
        machines=machines,
        parameters=parameters,
        link_bits_per_second=mbit * 1e6,
        link_measured=measured,
    )
    unknown = {"gradient_norm": math.nan, "forward": 0.0, "backward": 0.0, "optimizer": 0.0}
    steps = [
        step(100 * n, seconds=seconds, time=100 * n * seconds, **unknown) for n in range(1, 10)
    ]
    steps = [msgspec.structs.replace(s, learning_rate=math.nan, target_tokens=0) for s in steps]
    return RunView(path=Path("runs/foreign"), ranks={0: tuple(steps)}, imported=about)


def network(*given, **options):
    return diagnose(view(*given, **options), 0.0).answer("network")


def written(tmp_path, text, told=None):
    (tmp_path / "nohup.out").write_text(text)
    write_run(read_openseq2seq(tmp_path / "nohup.out", told or UserFacts()), tmp_path / "run")
    return read_run(tmp_path / "run")


# What people read off their cards, in MB/s, beside the step: FIELD runs A, B, C and D.
@pytest.mark.parametrize(
    ("seconds", "megabytes"), [(30.0, 12.5), (1.7, 228), (1.629, 228.5), (0.76, 450.5)]
)
def test_the_measured_rate_of_the_field_runs_names_the_network(seconds, megabytes):
    answer = network(seconds, mbit=8 * megabytes, measured=True)
    assert answer.verdict == "bottleneck"
    assert answer.values["expected_bytes_per_step"] == 365_285_376
    assert answer.values["share_of_step"] > 0.9


@pytest.mark.parametrize(
    ("seconds", "mbit"), [(30.0, 100), (1.7, 1000), (1.629, 1000), (34.9, 100), (1.685, 1000)]
)
def test_so_does_the_link_that_was_bought(seconds, mbit):
    answer = network(seconds, mbit=mbit)
    assert answer.verdict == "bottleneck"
    assert "by arithmetic and not by measurement" in answer.summary
    assert answer.values["computed"] is True
    assert answer.values["measured_bytes_per_step"] is None


def test_a_link_that_cannot_have_carried_the_run_is_not_believed():
    answer = network(1.685, mbit=100)
    assert answer.verdict == "unknown"
    assert "cannot have carried the run" in answer.summary
    assert "1.73 Gbit/s" in answer.summary


def test_a_link_that_was_fast_enough_is_no_bottleneck_and_one_between_is_not_decided():
    assert network(1.685, mbit=100_000, measured=True).verdict == "not_bottleneck"
    assert network(1.685, mbit=3000, measured=True).verdict == "unknown"
    assert network(1.685, mbit=3000).verdict == "unknown"


# FIELD runs E and A: 1 Gbit/s was bought, 100 Mbit/s were delivered, and nobody had noticed.
@pytest.mark.parametrize("seconds", [34.9, 30.0])
def test_a_link_that_was_only_bought_is_never_acquitted(seconds):
    answer = network(seconds, mbit=1000)
    assert answer.verdict == "unknown"
    assert "if the link really delivered that" in answer.summary
    assert "not measured" in answer.summary
    assert "--measured" in answer.advice
    assert network(seconds, mbit=100, measured=True).verdict == "bottleneck"


def test_one_box_uses_no_network():
    assert network(0.61, machines=1, mbit=1000).verdict == "not_used"
    assert network(0.61, processes=1, machines=1).verdict == "not_used"


@pytest.mark.parametrize("missing", ["processes", "machines", "parameters"])
def test_what_is_not_known_is_asked_for_and_not_assumed(missing):
    answer = network(1.685, mbit=1000, **{missing: 0})
    assert answer.verdict == "unknown"
    assert f"number of {missing} is not known" in answer.summary
    assert f"--{missing} N" in answer.advice
    assert answer.values["expected_bytes_per_step"] is None


def test_without_a_link_the_answer_says_what_the_link_must_have_been():
    answer = network(1.685)
    assert answer.verdict == "unknown"
    assert answer.values["needed_mbit_per_s"] == pytest.approx(1734.3, abs=0.1)
    assert answer.values["share_of_step"] is None
    assert "--link" in answer.advice


def on_v100s(seconds, **options):
    """FIELD run E: 256 sentences of up to 56 pieces on each of four V100s, in fp16."""
    run = view(seconds, **options)
    config = {
        "train": {"precision": "fp16"},
        "openseq2seq": {"batch_size_per_gpu": 256, "data_layer_params": {"max_length": 56}},
    }
    starts = tuple(
        start(rank, 4, "ab"[rank // 2], time=0.0, device="cuda") for rank in range(4)
    )
    devices = {"devices": ["Tesla V100-PCIE-16GB"]}
    return diagnose(replace(run, starts=starts, config=config, environment=devices), 0.0)


def test_arithmetic_says_what_the_devices_need_and_which_port_the_bytes_would_fill():
    report = on_v100s(34.9)
    answer = report.answer("network")
    assert answer.verdict == "unknown"
    assert answer.values["expected_compute_seconds"] == pytest.approx(0.6, abs=0.02)
    assert answer.values["unexplained_share"] == pytest.approx(0.983, abs=0.001)
    assert answer.values["needed_mbit_per_s"] == pytest.approx(83.7, abs=0.1)
    assert answer.values["port_mbit_per_s"] == 100
    for words in ("365 MB", "34.9 s", "83.7 Mbit/s", "a port of 100 Mbit/s", "98 % of it"):
        assert words in answer.summary, words
    assert "100 Mbit/s" in answer.advice
    assert "98 % of it" in report.answer("devices").summary
    assert "computing explains 1.7 % of a step" in report.headline


def test_a_port_that_was_bought_and_not_delivered_is_named_too():
    answer = on_v100s(34.9, mbit=1000).answer("network")
    assert answer.verdict == "unknown"
    assert "98 % of it" in answer.summary
    assert answer.values["port_mbit_per_s"] == 100


def test_a_rate_that_no_port_has_names_none():
    answer = on_v100s(1.685).answer("network")
    assert answer.values["port_mbit_per_s"] is None
    assert "port" not in answer.summary
    assert "65 % of it" in answer.summary


def test_devices_that_are_not_known_explain_nothing():
    values = network(34.9).values
    assert values["expected_compute_seconds"] is None
    assert values["unexplained_share"] is None
    assert values["port_mbit_per_s"] == 100
    busy = on_v100s(0.62)  # one box without a network: computing fills the step
    assert "something else" not in busy.answer("network").summary


def test_nothing_that_no_record_tells_has_a_number(tmp_path):
    report = diagnose(written(tmp_path, log(hosts=())), 0.0)
    verdicts = {answer.id: answer.verdict for answer in report.answers}
    assert list(verdicts) == list(QUESTIONS)
    for name in ("devices", "network", "training_set", "checkpoint_files", "duration"):
        assert verdicts[name] == "unknown", name
    assert report.answer("devices").values["power_watts"] is None
    assert report.answer("step_time").values["parts_seconds"] is None
    assert report.answer("step_time").values["target_tokens_per_second"] is None
    assert report.bottleneck.cause == "unknown"
    assert report.bottleneck.measured is False
    assert report.bottleneck.without_it_seconds_per_step is None


def test_the_bleu_of_next_words_is_never_the_best_bleu(tmp_path):
    run = written(tmp_path, log())
    report = diagnose(run, 0.0)
    assert "BLEU" not in report.headline
    assert "counts for nothing" in " ".join(report.answer("trained").evidence)
    assert "90.0" not in render_html(report, run).partition("Eleven questions")[0]


def test_the_learning_rate_is_computed_from_the_settings_and_says_so(tmp_path):
    answer = diagnose(written(tmp_path, log()), 0.0).answer("learning_rate")
    assert answer.verdict == "answered"
    assert answer.values["computed"] is True
    assert answer.values["peak_step"] == 40
    assert answer.values["peak"] == pytest.approx(2.0 * 64**-0.5 * 40**-0.5)


def test_validations_of_imported_runs_are_judged_like_all_others(tmp_path):
    falling = diagnose(written(tmp_path, log()), 0.0)
    assert falling.answer("trained").verdict == "no"
    assert falling.answer("overfitting").verdict == "no"
    losses = [4.0, 3.0, 2.5, 2.4, 2.6, 2.8, 3.0]
    turned = tuple(validated(100 * n, loss) for n, loss in enumerate(losses, start=1))
    run = replace(view(1.0), validations=turned)
    answer = diagnose(run, 0.0).answer("overfitting")
    assert (answer.verdict, answer.values["since_step"]) == ("yes", 400)


def test_a_log_that_says_it_finished_is_finished(tmp_path):
    text = log() + "*** Finished training\n*** Avg time per step: 0.512s\n"
    report = diagnose(written(tmp_path, text), 0.0)
    assert report.answer("duration").verdict == "finished"
    assert report.answer("duration").values["seconds_left"] is None


def test_the_pages_of_an_imported_run_claim_nothing_that_was_not_recorded(tmp_path):
    text = log().replace("/data/toy/train.en.pieces", "/data/<script>alert(1)</script>.en")
    run = written(tmp_path, text, UserFacts(link_bits_per_second=1e6))
    report = diagnose(run, 0.0)
    html, markdown = render_html(report, run), render_markdown(report, run)
    assert "<script>alert" not in html + markdown
    for page in (html, markdown, render_text(report)):
        assert "epoch 0" not in page
        assert "in one session" not in page
        assert "nan" not in page.replace("finance", "")
        assert "% of the time was arithmetic" not in page
    assert "Not measured" in html
    assert "1970" not in html


def test_runs_side_by_side_show_no_shares_that_nobody_measured(tmp_path):
    (tmp_path / "a").mkdir()
    foreign, own = written(tmp_path / "a", log(hosts=())), healthy_run()
    pairs = [(run, diagnose(run, 1_700_000_300.0)) for run in (foreign, own)]
    rows = {row.name: row.cells for row in compare_runs(pairs).results}
    assert rows["processes"] == ("4", "1")
    assert rows["machines"] == ("–", "1")
    assert rows["time in compute"][0] == "–"
    assert rows["bottleneck"][0] == "unknown (not measured)"
    assert compare_runs([(v := view(math.nan), diagnose(v, 0.0))]).results


def test_an_imported_run_is_not_watched(tmp_path):
    written(tmp_path, log())
    shown = CliRunner().invoke(unisono, ["watch", str(tmp_path / "run"), "--once"])
    assert isinstance(shown.exception, DataError)


def test_a_run_imported_by_the_first_version_can_still_be_read():
    run = read_run(GOLDEN)
    assert run.imported.format == 1
    assert (run.imported.trainer, run.imported.processes) == ("OpenSeq2Seq", 2)
    assert [s.step for s in run.steps] == [0, 10, 20, 30, 40, 50]
    assert run.steps[1].seconds == 0.51
    assert [v.forced_bleu for v in run.validations] == pytest.approx([90.0, 23.1])
    assert diagnose(run, 0.0).answer("network").verdict == "bottleneck"


def test_our_own_runs_are_told_as_before():
    report = diagnose(healthy_run(), 1_700_000_300.0)
    assert report.bottleneck.measured is not False
    assert "Imported" not in report.headline
