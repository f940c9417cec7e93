"""Runs side by side."""

import json
from dataclasses import replace
from pathlib import Path

from click.testing import CliRunner

from diagnose.made_runs import CONFIG, healthy_run, now, start
from unisono.cli.runs.compare import compare
from unisono.diagnose.diagnosis import diagnose
from unisono.records.events import to_line
from unisono.report.comparison import compare_runs


def compared(*runs):
    return compare_runs([(run, diagnose(run, now())) for run in runs])


def cells(rows):
    return {row.name: row.cells for row in rows}


def test_only_settings_that_differ_are_told_and_all_results():
    one = healthy_run(path=Path("runs/a"))
    config = {**CONFIG, "seed": 2, "extra": {"x": 1}}
    two = healthy_run(path=Path("runs/b"), config=config, starts=(start(size=2),))
    found = compared(one, two)
    assert found.names == ("runs/a", "runs/b")
    assert cells(found.settings) == {"seed": ("1", "2"), "extra.x": ("–", "1")}
    results = cells(found.results)
    assert results["processes"] == ("1", "2")
    assert results["updates"] == ("200", "200")
    assert results["best validation loss"] == ("2.5000", "2.5000")


def test_a_run_that_never_began_has_a_column_of_unknowns():
    nothing = replace(healthy_run(), starts=(), ranks={}, validations=(), saves=(), ends=())
    results = cells(compared(healthy_run(), nothing).results)
    assert results["updates"] == ("200", "–")
    assert results["time"][1] == "–"
    assert results["best validation loss"][1] == "–"


def written(path, run):
    (path / "events").mkdir(parents=True)
    (path / "config.toml").write_text(f'seed = {run.config["seed"]}\nname = "a|b"\n')
    events = [*run.starts, *run.steps, *run.validations, *run.ends]
    lines = b"".join(to_line(event) + b"\n" for event in events)
    (path / "events" / "rank-0000.jsonl").write_bytes(lines)
    return str(path)


def test_the_command_prints_text_markdown_and_json(tmp_path):
    other = healthy_run(config={**CONFIG, "seed": 2})
    runs = [written(tmp_path / "a", healthy_run()), written(tmp_path / "b", other)]

    def said(*options):
        done = CliRunner().invoke(compare, [*runs, *options], catch_exceptions=False)
        assert done.exit_code == 0
        return done.output

    text = said()
    assert "settings that differ" in text
    assert any(line.split() == ["seed", "1", "2"] for line in text.splitlines())
    table = said("--md").splitlines()
    assert table[1].startswith("| ---")
    assert len({line.replace("\\|", "").count("|") for line in table if line}) == 1
    found = json.loads(said("--json"))
    assert found["settings"]["seed"] == dict(zip(runs, ("1", "2"), strict=True))
    assert found["results"]["updates"][runs[0]] == "200"
