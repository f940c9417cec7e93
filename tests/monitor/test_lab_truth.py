"""Machines of a laboratory on which something is wrong on purpose: is it found out?"""

import subprocess
import time

import pytest

from support.tiny import tiny_settings
from unisono.config.load import to_toml
from unisono.diagnose.case import open_case
from unisono.diagnose.diagnosis import diagnose
from unisono.lab.build import plan_agent
from unisono.lab.lab import Lab
from unisono.lab.plan import LabPlan
from unisono.records.view import read_run

pytestmark = [pytest.mark.ranks, pytest.mark.usefixtures("able")]

MODEL = {"width": 128, "heads": 2, "inner": 512}


def train(corpus_home, home, plan, steps, layers=2, **sync):
    """Train on two machines; return the run as it is read back."""
    model = {**MODEL, "encoder_layers": layers, "decoder_layers": layers}
    settings = tiny_settings(
        corpus_home,
        run=home / "run",
        model=model,
        batching={"tokens_per_update": 800, "tokens_per_micro_batch": 200},
        train={"max_steps": steps},
        validation={"every_steps": 1_000_000, "bleu": False},
        checkpoint={"every_steps": 1_000_000},
        monitor={"on": True, "every": "0.2 s"},
        sync={"bucket_mb": 0.3, **sync},
    )
    config = home / "run.toml"
    config.write_text(to_toml(settings))
    with Lab(plan) as lab:
        jobs = []
        for node in (0, 1):
            agent = plan_agent(plan, node, ["train", str(config)])
            pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
            jobs.append(lab.start(node, agent.argv, variables=agent.variables, **pipes))
        said = [job.communicate()[1] for job in jobs]
    assert [job.returncode for job in jobs] == [0, 0], said
    return read_run(home / "run")


def findings(view):
    return {finding.id: finding for finding in diagnose(view, time.time()).findings}


@pytest.mark.long(minutes=1)
def test_a_slow_direction_and_the_interface_are_named_with_their_rates(corpus_home, tmp_path):
    plan = LabPlan(nodes=2, link="400mbit", link_from={1: "8mbit"})
    view = train(corpus_home, tmp_path, plan, steps=10, layers=1)
    answer = diagnose(view, time.time()).answer("network")
    assert answer.verdict == "bottleneck"
    assert answer.values["interface"] == "eth0"
    assert answer.values["link_mbit_per_s"] == pytest.approx(8, rel=0.25)
    needed = answer.values["expected_bytes_per_step"]
    assert 0.95 * needed < answer.values["measured_bytes_per_step"] < 1.3 * needed
    assert set(view.machines) == {0, 1}
    found = findings(view)["slow_direction"]
    assert "From node1 to node0" in found.summary
    assert "foreign_traffic" not in findings(view)
    for row in open_case(view, time.time()).ledger.usual:
        assert 0 < row.hidden < row.seconds - row.wire


@pytest.mark.long(minutes=1)
def test_two_workers_a_machine_send_their_packed_sum_once(corpus_home, tmp_path):
    plan = LabPlan(nodes=2, workers_per_node=2)
    view = train(corpus_home, tmp_path, plan, steps=40, strategy="compressed", bits=4)
    needed = (0.5 + 2 / 64) * view.starts[0].parameters
    values = diagnose(view, time.time()).answer("network").values
    assert values["expected_bytes_per_step"] == pytest.approx(needed, rel=0.01)
    assert 0.95 * needed < values["measured_bytes_per_step"] < 1.4 * needed
