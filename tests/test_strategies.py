"""A strategy is one file and one entry: nothing else knows it by its name."""

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cost_model.measuring import configured
from support.tiny import tiny_settings
from unisono.config.load import to_toml
from unisono.cost_model.exchange import ring_bytes
from unisono.cost_model.strategies import AUTO, STRATEGIES, StrategyFacts
from unisono.errors import ConfigError
from unisono.records.layout import RunDirectory

SOURCE = Path(__file__).parent.parent / "src" / "unisono"
TABLE = SOURCE / "cost_model" / "strategies.py"
# An English word as well: only a whole string is a name.
WORDS = {"compressed"}

FILE = '''
"""Gradients summed in bfloat16."""

from dataclasses import dataclass

import torch.distributed as dist

from unisono.comm.strategies.ddp import DdpReplica
from unisono.comm.strategies.threaded_replica import replica_alone


@dataclass(frozen=True)
class Halves:
    @classmethod
    def from_settings(cls, sync, max_steps, *, adaptive):
        return cls()

    def attach(self, model, comm):
        if comm.world.size == 1:
            return replica_alone(model, comm)
        return DdpReplica(model, comm, 25.0, send)


def send(bucket):
    work = dist.all_reduce(bucket.buffer().bfloat16(), async_op=True)
    return work.get_future().then(lambda future: future.value()[0].float())
'''
ENTRY = """
from unisono.cost_model.exchange import ring_bytes
from unisono.cost_model.strategies import STRATEGIES, StrategyFacts

STRATEGIES["halves"] = StrategyFacts(
    "halves",
    "halves:Halves",
    price="each sum of gradients is rounded to bfloat16",
    arithmetic="2 · ({ranks} − 1)/{ranks} · 2 bytes · {parameters:,} parameters",
    wire_bytes=lambda payload: ring_bytes(payload.parameters, payload.processes, 2),
    kept_numbers=2,
)
"""


def texts(path):
    """Yield every string of a module that is not a docstring, with its line."""
    tree = ast.parse(path.read_text())
    described = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    docs = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, described) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in docs
        ):
            yield node.lineno, node.value


@pytest.mark.parametrize("name", STRATEGIES)
def test_no_strategy_is_named_outside_its_file_and_its_entry(name):
    home = STRATEGIES[name].implementation.partition(":")[0].rpartition(".")[2]
    whole = re.compile(rf"\A{name}\Z" if name in WORDS else rf"\b{name}\b")
    found = [
        f"{path.relative_to(SOURCE)}:{line}"
        for path in SOURCE.rglob("*.py")
        if path != TABLE and not path.stem.startswith(home)
        for line, text in texts(path)
        if whole.search(text)
    ]
    assert found == []


def test_auto_is_one_constant():
    # Devices have an "auto" of their own: only what is compared with a strategy counts.
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Compare) and "strategy" in ast.unparse(node.left):
                assert repr(AUTO) not in ast.unparse(node), path


def test_every_entry_names_a_class_and_has_words_for_its_price():
    for name, facts in STRATEGIES.items():
        assert facts.name == name
        assert facts.price.format(bits=8, often="once in 8 updates")
        assert facts.local or not facts.keeps_momentum


def test_a_misspelt_strategy_is_refused_with_the_right_name(corpus_home):
    with pytest.raises(ConfigError, match="there is no strategy 'dilco'") as caught:
        tiny_settings(corpus_home, sync={"strategy": "dilco"})
    assert "did you mean `diloco`?" in caught.value.fix


@pytest.fixture
def halves(monkeypatch):
    facts = StrategyFacts(
        "halves",
        "halves:Halves",
        price="each sum of gradients is rounded to bfloat16",
        arithmetic="",
        wire_bytes=lambda payload: ring_bytes(payload.parameters, payload.processes, 2),
        kept_numbers=2,
    )
    monkeypatch.setitem(STRATEGIES, "halves", facts)


@pytest.mark.usefixtures("halves")
def test_the_forecast_judges_a_strategy_that_was_added():
    found = configured("halves")
    assert found.chosen.exchange.name == found.strategy == "halves"
    assert found.chosen.exchange.card_bytes == found.ways[0].exchange.card_bytes / 2
    assert found.chosen.step.seconds < found.ways[0].step.seconds
    others = configured("ddp").ways
    assert "halves" not in [way.exchange.name for way in others]  # as it is not `listed`


@pytest.mark.ranks
def test_check_train_and_report_run_with_a_strategy_that_was_added(corpus_home, tmp_path):
    added, run = tmp_path / "added", tmp_path / "run"
    added.mkdir()
    (added / "halves.py").write_text(FILE)
    (added / "sitecustomize.py").write_text(ENTRY)
    config = tmp_path / "halves.toml"
    # The settings of a known strategy: this process does not know the other.
    settings = to_toml(tiny_settings(corpus_home, run=run))
    config.write_text(settings.replace('strategy = "ddp"', 'strategy = "halves"'))

    def said(*words):
        path = os.pathsep.join((str(added), str(SOURCE.parent)))
        command = [sys.executable, "-m", "unisono", *words]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": path},
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    checked = json.loads(said("check", str(config), "--workers=2", "--seconds=1", "--json"))
    assert checked["measured"]["job"]["strategy"] == "halves"
    said("launch", str(config), "--workers=2")
    events = [json.loads(line) for line in RunDirectory(run).events(0).read_text().splitlines()]
    started = next(event for event in events if event["kind"] == "started")
    assert (started["strategy"], started["bits"], started["every"]) == ("halves", 32, 1)
    report = said("report", str(run), "--json")
    assert "2 bytes · " in report
    assert "(halves)" in report
