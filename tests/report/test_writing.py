"""From a run directory to its reports, and the reports for a terminal."""

import json
from pathlib import Path

import pytest
import tomli_w
from click.testing import CliRunner

from diagnose.made_runs import CONFIG, CORPUS, healthy_run, now, step, team, validated
from unisono.cli.runs.report import report as report_command
from unisono.diagnose.diagnosis import diagnose
from unisono.errors import ConfigError, DataError
from unisono.records.events import to_line
from unisono.report.page import render_html, render_json, write_page, write_report
from unisono.report.text import render_markdown, render_text
from unisono.small_files import LineWriter


def write_run(directory, run):
    """Write a made run as `train` would."""
    (directory / "config.toml").write_text(tomli_w.dumps(CONFIG))
    (directory / "corpus.json").write_text(json.dumps(CORPUS))
    for rank, steps in run.ranks.items():
        lines = LineWriter(directory / "events" / f"rank-{rank:04d}.jsonl")
        events = [*(s for s in run.starts if s.rank == rank), *steps]
        if rank == 0:
            events += [*run.validations, *run.saves, *run.ends]
        for event in events:
            lines.write(to_line(event))
        lines.close()


def test_three_reports_are_written(tmp_path):
    write_run(tmp_path, team(lambda rank, n: {"exchange": 0.1}, ["a", "b"]))
    report = write_report(tmp_path)
    assert sorted(path.name for path in tmp_path.glob("report.*")) == [
        "report.html",
        "report.json",
        "report.md",
    ]
    assert json.loads((tmp_path / "report.json").read_text("utf-8")) == json.loads(
        render_json(report)
    )
    assert report.answer("duration").verdict == "finished"
    assert report.answer("network").verdict == "not_bottleneck"


def test_the_page_alone_goes_where_it_is_wanted(tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    write_run(run, healthy_run())
    before = sorted(path.name for path in run.iterdir())
    done = CliRunner().invoke(report_command, [str(run), "--html", str(tmp_path / "a.html")])
    assert done.exit_code == 0
    assert "<svg" in (tmp_path / "a.html").read_text("utf-8")
    assert sorted(path.name for path in run.iterdir()) == before
    with pytest.raises(ConfigError, match="not a directory"):
        write_page(run, tmp_path / "nowhere" / "a.html")


def test_a_torn_last_line_is_passed_over(tmp_path):
    write_run(tmp_path, healthy_run(steps=50, ends=()))
    with (tmp_path / "events" / "rank-0000.jsonl").open("ab") as file:
        file.write(to_line(step(51))[:40])
    assert write_report(tmp_path).answer("duration").values["updates"] == 50


def test_a_directory_that_is_no_run_is_refused(tmp_path):
    with pytest.raises(DataError, match="not a run directory"):
        write_report(Path(tmp_path))


@pytest.mark.parametrize("width", [60, 80, 120])
def test_text_fits_the_terminal(width):
    text = render_text(diagnose(healthy_run(), now()), width)
    assert max(len(line) for line in text.splitlines()) <= width
    assert "11. How does step time vary" in text
    assert "[not used]" in text


SIGNATURE = "nrefs:1|bs:1000|seed:12345|case:mixed|eff:no|tok:13a|smooth:exp|version:2.5.1"


def scored_run():
    score = {"bleu": 27.3, "bleu_low": 26.5, "bleu_high": 28.1, "bleu_signature": SIGNATURE}
    return healthy_run(validations=tuple(validated(n, 2.5, **score) for n in (50, 100)))


@pytest.mark.parametrize(
    "render",
    [
        lambda report, run: render_text(report),
        render_markdown,
        render_html,
        lambda report, run: render_json(report),
    ],
    ids=["text", "markdown", "page", "json"],
)
def test_bleu_is_never_told_without_its_signature(render):
    run = scored_run()
    told = render(diagnose(run, now()), run).replace("\\", "")
    assert "27.3 ± 0.8" in told
    assert f"± is half of its 95 % interval; signature {SIGNATURE}" in " ".join(
        told.replace("&nbsp;", " ").split()
    )


def test_where_nothing_was_scored_there_is_no_small_print():
    run = healthy_run(validations=(validated(50, 2.5),))
    report = diagnose(run, now())
    assert "signature" not in render_text(report)
    assert "note" not in json.loads(render_json(report))


def test_a_score_without_a_signature_is_told_to_have_none():
    run = healthy_run(validations=(validated(50, 2.5, bleu=20.0),))
    text = " ".join(render_text(diagnose(run, now())).split())
    assert "no interval was recorded; signature not recorded" in text
