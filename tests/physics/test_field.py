"""The arithmetic against what people measured on rented machines (field-runs.csv)."""

import csv
from pathlib import Path

import pytest

from unisono.physics.bill import bill_for, why_not
from unisono.physics.cluster import Cluster, exact_exchange, step_on
from unisono.physics.exchange import flat_ring
from unisono.physics.link import Link
from unisono.physics.step import Work

FIELD = Path(__file__).resolve().parents[3] / "shared" / "field-runs.csv"
SENTENCES = 256  # a GPU
# OpenSeq2Seq's own curve: one box with 4 GPUs took 0.613 s and was 3.73 times as fast as one
# GPU, two GPUs 1.93 times (FIELD.md). So this long one GPU takes without any exchange:
ONE_GPU = 0.613 * 3.73 / 4
WORK = Work(forward=ONE_GPU / 3, backward=ONE_GPU * 2 / 3)

pytestmark = pytest.mark.skipif(not FIELD.is_file(), reason=f"{FIELD.name} is not there")


@pytest.fixture(scope="module")
def runs():
    with FIELD.open(encoding="utf-8") as file:
        return {row["run"]: row for row in csv.DictReader(file)}


def parameters_of(row):
    return int(row["parameters"])


def cluster_of(row, bytes_per_second):
    nodes, gpus = int(row["nodes"]), int(row["gpus"])
    return Cluster(nodes, gpus // nodes, Link(bytes_per_second))


def measured_rate(row):
    return (float(row["nic_mb_per_s_low"]) + float(row["nic_mb_per_s_high"])) / 2 * 1e6


def test_every_step_moves_365_megabytes(runs):
    assert flat_ring(parameters_of(runs["A"]), nodes=2, processes=4) == pytest.approx(
        365.3e6, 1e-3
    )


@pytest.mark.parametrize("name", ["A", "B", "C", "D"])
def test_the_rate_of_the_card_explains_the_step_within_ten_per_cent(runs, name):
    row = runs[name]
    count = exact_exchange(parameters_of(row), cluster_of(row, 1.0)).card_bytes
    assert count / measured_rate(row) == pytest.approx(float(row["step_seconds"]), rel=0.10)


@pytest.mark.parametrize("name", ["A", "B", "C"])
def test_so_does_the_pipeline_where_the_link_is_what_takes_long(runs, name):
    row = runs[name]
    cluster = cluster_of(row, measured_rate(row))
    exchange = exact_exchange(parameters_of(row), cluster)
    step = step_on(cluster, WORK, exchange, parameters_of(row))
    assert step.seconds == pytest.approx(float(row["step_seconds"]), rel=0.15)
    assert step.waiting > 0.5


@pytest.mark.parametrize("name", ["A", "B", "C", "E", "F"])
def test_one_node_alone_would_have_been_faster(runs, name):
    row = runs[name]
    # E and F have no reading of their own; they bought what A and B did.
    source = {"E": "A", "F": "B"}.get(name, name)
    cluster = cluster_of(row, measured_rate(runs[source]))
    bills = []
    for machines in (cluster, cluster.alone()):
        exchange = exact_exchange(parameters_of(row), machines)
        step = step_on(machines, WORK, exchange, parameters_of(row))
        at_once = SENTENCES * machines.ranks
        bills.append(
            bill_for(step, nodes=machines.nodes, sentences_per_step=at_once, sentences=4.5e6)
        )
    many, one = (bill.sentences_per_second for bill in bills)
    assert "slower than one" in why_not(bills[0].nodes, many / one, bills[0].step.waiting)
    assert bills[1].sentences_per_second == pytest.approx(868, rel=0.06)
