"""The arithmetic against what people measured on rented machines (field-runs.csv)."""

import csv
from pathlib import Path

import pytest

from unisono.cost_model.cluster import Cluster, exact_exchange, step_on
from unisono.cost_model.devices import device_called
from unisono.cost_model.exchange import Link, nominal_link, ring_bytes
from unisono.cost_model.run_cost import why_not
from unisono.cost_model.step import ComputeTimes
from unisono.models.settings import (
    PRESETS,
    TransformerSettings,
    parameter_count,
    training_flops,
)

FIELD = Path(__file__).resolve().parents[3] / "shared" / "field-runs.csv"
SENTENCES = 256  # a GPU
# OpenSeq2Seq's own curve: one box with 4 GPUs took 0.613 s and was 3.73 times as fast as one
# GPU, two GPUs 1.93 times (FIELD.md). So this long one GPU takes without any exchange:
ONE_GPU = 0.613 * 3.73 / 4
WORK = ComputeTimes(forward=ONE_GPU / 3, backward=ONE_GPU * 2 / 3)

# What OpenSeq2Seq computed: sentences of 30 pieces in the mean, cut at 56, as they come in the
# shuffled corpus. Of 256 some are always that long, and all are padded to it.
BASE, VOCABULARY, POSITIONS = TransformerSettings(**PRESETS["base"]), 32696, 56


@pytest.fixture(scope="module")
def runs():
    if not FIELD.is_file():
        pytest.skip(f"{FIELD.name} is not there")
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
    assert ring_bytes(parameters_of(runs["A"]), 4) == pytest.approx(365.3e6, 1e-3)


@pytest.mark.parametrize("name", ["A", "B", "C", "D"])
def test_the_rate_of_the_card_explains_the_step_within_ten_per_cent(runs, name):
    row = runs[name]
    count = exact_exchange(parameters_of(row), cluster_of(row, 1.0)).card_bytes
    assert count / measured_rate(row) == pytest.approx(float(row["step_seconds"]), rel=0.10)


def step_at(row, bytes_per_second):
    cluster = cluster_of(row, bytes_per_second)
    exchange = exact_exchange(parameters_of(row), cluster)
    return step_on(cluster, WORK, exchange, parameters_of(row))


def rate_of_link(row):
    """Return the rate at which the pipeline takes as long as the run did."""
    low, high = 1e6, 1e10
    while high / low > 1.0001:
        middle = (low * high) ** 0.5
        late = step_at(row, middle).seconds > float(row["step_seconds"])
        low, high = (middle, high) if late else (low, middle)
    return low


@pytest.mark.parametrize("source", ["bought", "read off the card"])
def test_the_pipeline_explains_the_run_whose_link_is_known(runs, source):
    # A step of A is all sending, so what its card showed is what the link carries.
    bought = nominal_link(float(runs["A"]["link_bought_mbit"]) * 1e6).bytes_per_second
    rate = bought if source == "bought" else measured_rate(runs["A"])
    step = step_at(runs["A"], rate)
    assert step.seconds == pytest.approx(float(runs["A"]["step_seconds"]), rel=0.10)
    assert step.waiting > 0.9


@pytest.mark.parametrize("name", ["C", "F"])
def test_the_link_of_one_run_explains_others_that_bought_the_same(runs, name):
    assert runs[name]["link_bought_mbit"] == runs["B"]["link_bought_mbit"]
    step = step_at(runs[name], rate_of_link(runs["B"]))
    assert step.seconds == pytest.approx(float(runs[name]["step_seconds"]), rel=0.10)


@pytest.mark.parametrize("name", ["B", "C", "D"])
def test_a_card_that_pauses_in_every_step_shows_less_than_its_link_carries(runs, name):
    assert measured_rate(runs[name]) < 0.95 * rate_of_link(runs[name])


def check_one_box(precision, gpus, parameters, seconds):
    """Assert that data sheets and the assumed shares give the step of OpenSeq2Seq's box."""
    assert parameter_count(BASE, VOCABULARY) == parameters
    flops = training_flops(BASE, VOCABULARY, SENTENCES, POSITIONS, POSITIONS)
    computing = flops / device_called("V100").field_rate(precision)
    cluster = Cluster(1, gpus, Link(1.0))
    work = ComputeTimes(forward=computing / 3, backward=computing * 2 / 3)
    step = step_on(cluster, work, exact_exchange(parameters, cluster), parameters)
    assert step.seconds == pytest.approx(seconds, rel=0.15)


@pytest.mark.parametrize(("name", "precision"), [("one-box", "fp16"), ("one-box-fp32", "fp32")])
def test_the_table_of_devices_agrees_with_one_box(runs, name, precision):
    row = runs[name]
    assert int(row["sentences_per_gpu"]) == SENTENCES
    check_one_box(precision, int(row["gpus"]), parameters_of(row), float(row["step_seconds"]))


@pytest.mark.parametrize(("precision", "seconds"), [("fp16", 0.61), ("fp32", 0.93)])
def test_so_it_does_with_the_figures_as_published(precision, seconds):
    # 4 V100s with NVLink in OpenSeq2Seq's own plot: 1.63 steps a second mixed, 0.93 s in fp32.
    check_one_box(precision, 4, 60_880_896, seconds)


@pytest.mark.parametrize("name", ["A", "B", "C", "E", "F"])
def test_one_node_alone_would_have_been_faster(runs, name):
    row = runs[name]
    # E and F have no reading of their own; they bought what A and B did.
    source = {"E": "A", "F": "B"}.get(name, name)
    cluster = cluster_of(row, measured_rate(runs[source]))
    steps = []
    for machines in (cluster, cluster.alone()):
        exchange = exact_exchange(parameters_of(row), machines)
        steps.append(step_on(machines, WORK, exchange, parameters_of(row)))
    # Sentences a second: each process takes as many at once.
    many = SENTENCES * cluster.ranks / steps[0].seconds
    one = SENTENCES * cluster.alone().ranks / steps[1].seconds
    assert "slower than one" in why_not(cluster.nodes, many / one, steps[0].waiting)
    assert one == pytest.approx(868, rel=0.06)
