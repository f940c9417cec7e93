"""The Python API: quick to import, the same in every order, and no other errors."""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

import unisono
from support.tiny import tiny_corpus, tiny_settings
from unisono.api import settings_from
from unisono.cli.simulate import simulate
from unisono.config.load import to_toml
from unisono.records.events import Ended, Started, StepTaken, Validated
from unisono.report.notebook import notebook_html

ROOT = Path(__file__).parents[1]
HEAVY = ("torch", "numpy", "sacrebleu", "msgspec", "rich", "click", "jinja2")


def python(code):
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def table_of(settings):
    return msgspec.to_builtins(settings)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A directory with a tiny corpus and a run that was trained through the API."""
    home = tiny_corpus(tmp_path_factory.mktemp("api"))
    config = home / "tiny.toml"
    config.write_text(to_toml(tiny_settings(home)))
    return home, config, list(unisono.train(config))


def test_importing_unisono_imports_nothing_heavy():
    found = python(f"import sys, unisono; print([n for n in {HEAVY} if n in sys.modules])")
    assert found.strip() == "[]"


def test_only_what_needs_torch_imports_it():
    light = [name for name in unisono.__all__ if name not in ("train", "load")]
    used = "; ".join(f"unisono.{name}" for name in light)
    assert python(f"import sys, unisono; {used}; print('torch' in sys.modules)") == "False\n"


ORDERS = """
import importlib, sys, types

MODULES = ("unisono.prepare.build", "unisono.train.job", "unisono.score", "the functions")

def use():
    for name in ("prepare", "train", "score"):
        assert isinstance(getattr(sys.modules["unisono"], name), types.FunctionType), name

for first in range(len(MODULES)):
    order = MODULES[first:] + MODULES[:first]
    for name in [name for name in sys.modules if name.split(".")[0] == "unisono"]:
        del sys.modules[name]
    import unisono
    for name in order:
        if name == "the functions":
            use()
        else:
            assert importlib.import_module(name).__name__ == name
    use()
from unisono.train import job, loop
from unisono.score import score_bleu
assert isinstance(loop, types.ModuleType)
"""


@pytest.mark.ranks
def test_a_function_stays_one_whatever_is_imported_before_and_after_it():
    python(ORDERS)


def test_a_name_of_the_api_can_be_replaced_in_a_test_of_ones_own(monkeypatch):
    original = unisono.score
    with monkeypatch.context() as patch:
        patch.setattr(unisono, "score", len)
        assert unisono.score is len
    assert unisono.score is original


def test_the_stub_names_what_the_package_offers():
    tree = ast.parse((ROOT / "src" / "unisono" / "__init__.pyi").read_text())
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    for node in imports:
        (alias,) = node.names
        assert getattr(unisono, alias.name).__module__ == node.module
    assert {node.names[0].name for node in imports} == set(unisono.__all__)
    assert set(unisono.__all__) <= set(dir(unisono))


def test_the_version_is_that_of_the_package():
    text = (ROOT / "pyproject.toml").read_text()
    assert re.search(r'^version = "(.*)"$', text, re.MULTILINE)[1] == unisono.__version__


def test_settings_are_the_same_from_a_file_and_from_a_dict(corpus_home, tmp_path):
    settings = tiny_settings(corpus_home)
    config = tmp_path / "some.toml"
    config.write_text(to_toml(settings))
    assert settings_from(config, {}) == settings_from(str(config), {}) == settings
    assert settings_from(table_of(settings), {}) == settings


def test_keywords_change_settings_as_set_does(corpus_home):
    table = table_of(tiny_settings(corpus_home))
    changes = {"run": corpus_home / "other", "train": {"max_steps": 3}}
    settings = settings_from(table, changes)
    assert settings.run == str(corpus_home / "other")
    assert settings.train.max_steps == 3
    assert settings.train.label_smoothing == table["train"]["label_smoothing"]
    other = settings_from(table, {"schedule": {"name": "constant"}})
    assert type(other.schedule).__name__ == "Constant"
    assert table["train"]["max_steps"] == 12  # what the caller handed over stays as it is


def test_a_run_without_a_name_is_called_after_its_file(corpus_home, tmp_path):
    config = tmp_path / "some.toml"
    config.write_text(to_toml(tiny_settings(corpus_home)))
    assert settings_from(config, {"run": ""}).run == "runs/some"


def test_errors_are_those_of_the_command_line_and_come_at_once(corpus_home, tmp_path):
    table = table_of(tiny_settings(corpus_home))
    with pytest.raises(unisono.ConfigError, match="did you mean `max_steps`"):
        unisono.train(table, train={"max_step": 3})
    with pytest.raises(unisono.ConfigError, match="do not name a run directory"):
        unisono.train(table, run="")
    with pytest.raises(unisono.ConfigError, match="there is no file"):
        unisono.prepare(tmp_path / "missing.toml")
    with pytest.raises(unisono.DataError, match="not a run directory"):
        unisono.open_run(tmp_path)
    with pytest.raises(unisono.UnisonoError, match="there is no bundle here"):
        unisono.load(tmp_path)
    with pytest.raises(unisono.DataError, match="1 translations for 2 references"):
        unisono.score(["a"], ["a", "b"])


def test_the_builtin_corpus_comes_with_its_data_table(tmp_path):
    data = unisono.get_corpus("builtin", tmp_path / "text", pairs=50)
    assert data == unisono.get_corpus("builtin", tmp_path / "text", pairs=50)
    assert data["source_language"] == "en"
    assert len(Path(data["train"][0]["source"]).read_text().splitlines()) == 50
    table = {"data": data, "corpus": {"directory": tmp_path / "corpus"}}
    corpus = unisono.prepare(table, corpus={"vocabulary": 300})
    assert corpus.manifest.splits["train"].pairs > 40
    assert unisono.prepare(table, corpus={"vocabulary": 300}).fingerprint == corpus.fingerprint


def test_training_yields_what_it_records(home):
    directory, _, events = home
    run = unisono.open_run(directory / "run")
    assert isinstance(events[0], Started)
    assert isinstance(events[-1], Ended)
    recorded = [event for event in run.events if isinstance(event, StepTaken)]
    assert [event for event in events if isinstance(event, StepTaken)] == recorded
    assert any(isinstance(event, Validated) for event in events)


def test_a_run_that_was_left_goes_on(home):
    directory, config, _ = home
    run = directory / "left"
    for event in unisono.train(config, run=run):
        if isinstance(event, StepTaken) and event.step == 6:
            break
    events = list(unisono.train(config, run=run))
    assert events[0].step == 5  # the last checkpoint: that of the last validation
    assert unisono.open_run(run).answers["duration"].verdict == "finished"


def test_an_open_run_tells_what_the_report_tells(home):
    run = unisono.open_run(str(home[0] / "run"))
    assert len(run.answers) == 11
    assert run.answers["duration"].verdict == "finished"
    assert run.headline == run.report.headline
    assert run.findings == run.report.findings
    assert run.headline in repr(run)
    steps = [step for step, _ in run.curves.training_loss]
    assert steps == list(range(1, 13))
    assert [step for step, _ in run.curves.validation_loss] == [5, 10, 12]
    assert len(run.curves.learning_rate) == len(run.curves.step_seconds) == 12


def test_a_notebook_shows_headline_time_bar_and_answers(home):
    run = unisono.open_run(home[0] / "run")
    page = run._repr_html_()
    assert type(page) is str  # Markup would escape what a user puts beside it
    assert "Where the time went: " in page
    assert page.count("<tr>") == 11 + len(run.findings)
    for answer in run.answers.values():
        assert answer.verdict.replace("_", " ") in page


def test_a_notebook_gets_no_markup_from_a_run(home):
    report = unisono.open_run(home[0] / "run").report
    bad = msgspec.structs.replace(report, headline="<script>alert(1)</script>")
    assert "<script>" not in notebook_html(bad)


def test_a_loaded_model_translates_as_the_bundle_does(home):
    model = unisono.load(home[0] / "run", device="cpu")
    assert model.decoding.beam == 2
    lines = ["one two three", "", "four"]
    assert len(model.translate(lines)) == 3
    assert model.translate(lines)[1] == ""
    other = unisono.load(home[0] / "run" / "bundle", device="cpu", beam=1)
    assert other.decoding.beam == 1
    with pytest.raises(unisono.ConfigError, match="beam"):
        unisono.load(home[0] / "run", beam=0)


def test_a_score_has_its_interval():
    text = ["a little house in the wood", "the dog sees a cat"]
    bleu = unisono.score(text, text)
    assert bleu.low <= bleu.score <= bleu.high
    assert bleu.score == pytest.approx(100)


def test_a_single_text_is_no_list_of_sentences():
    with pytest.raises(unisono.ConfigError, match="lists of sentences"):
        unisono.score("a text", ["a text"])


def test_a_simulation_of_no_machines_is_refused():
    with pytest.raises(unisono.ConfigError, match="a size is 0") as refused:
        unisono.simulate(machines=[0])
    assert refused.value.fix


def test_a_simulation_says_what_the_command_says():
    asked = {"nodes": "1,2,8", "gpu": "A100", "link": "10gbit", "price": "2"}
    words = [word for name, value in asked.items() for word in (f"--{name}", value)]
    printed = CliRunner().invoke(simulate, [*words, "--json"])
    told = json.loads(printed.output)["nodes"]
    found = unisono.simulate(machines=[1, 2, 8], gpu="A100", link="10gbit", price=2).found
    for some, plain in zip(found.by_machines, told, strict=True):
        assert some.machines == plain["nodes"]
        assert some.best.exchange.name == plain["advised"]
        assert [way.hours for way in some.ways] == [way["hours"] for way in plain["ways"]]
    for wrong in ({"model": "bas"}, {"machines": [0]}, {"link": "fast"}, {"gpu": "Z1"}):
        with pytest.raises(unisono.ConfigError) as refused:
            unisono.simulate(**wrong)
        assert "--" not in str(refused.value)  # there are no options in Python
    known = unisono.simulate(tflops=10.0).job
    assert known.flops_per_second == 1e13
