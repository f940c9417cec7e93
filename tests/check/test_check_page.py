"""What a person and a program are told of a forecast."""

import json

import msgspec
import pytest

from cost_model.measuring import JOB, MB, process, two
from unisono.check.page import json_of, page_of
from unisono.cost_model.forecast import forecast
from unisono.cost_model.probe_results import OneWay, ProbeResults


def unlimited(**changes):
    return msgspec.structs.replace(
        two(**changes), job=msgspec.structs.replace(JOB, updates=0), seconds=41.0
    )


def test_hours_and_money_that_nobody_knows_are_null():
    known, unknown = (
        json.loads(json_of(forecast(measured, price=2.0))) for measured in (two(), unlimited())
    )
    for found, is_known in ((known, True), (unknown, False)):
        for way in (found["alone"], *found["ways"]):
            assert (way["hours"] is not None) == (way["money"] is not None) == is_known
    assert known["alone"]["hours"] > 0
    assert "unknown, because nothing limits" in page_of(forecast(unlimited()))


def test_the_seconds_that_it_took_are_told():
    found = forecast(unlimited())
    assert page_of(found).endswith("(the check took 41.0 s)")
    assert json.loads(json_of(found))["measured"]["seconds"] == 41.0


def test_each_machine_has_its_own_devices_processes_and_memory():
    places = [("big", 0), ("big", 1), ("big", 2), ("small", 0)]
    devices = ["V100", "V100", "T4", "cpu"]
    four = [
        process(r, host=h, local_rank=n, device=device, interface="eth0", nominal_mbit=1000)
        for r, ((h, n), device) in enumerate(zip(places, devices, strict=True))
    ]
    page = page_of(forecast(ProbeResults(job=JOB, processes=tuple(four)))).splitlines()
    assert page[0].startswith("2 machines with up to 3 processes each")
    # 1 GB that was seen, and 4 bytes for each of ten million weights.
    assert page[1].startswith(
        "  big: 3 processes on 2 x V100, 1 x T4, 1 core, memory 1.0 GB of"
    )
    assert page[2].startswith("  small: 1 process on cpu, 1 core, memory 1.0 GB of 10.0 GB")
    assert "eth0 (nominally 1,000 Mbit/s)" in page[1]


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (("translations",), "and translations, which were not measured"),
        (("evaluations", "checkpoints"), "evaluation  not measured"),
        (("checkpoints",), "checkpoint  not measured"),
    ],
)
def test_what_was_not_measured_has_no_number(names, words):
    measured = msgspec.structs.replace(two(), unmeasured=names)
    assert words in page_of(forecast(measured))
    assert words not in page_of(forecast(two()))


def test_the_page_of_two_machines_ends_with_the_stop_sign_and_advice():
    pairs = (OneWay(0, 1, 12 * MB), OneWay(1, 0, 11 * MB))
    measured = msgspec.structs.replace(two(rate=10 * MB), pairs=pairs)
    *_, stop, empty, advice, took = page_of(forecast(measured)).splitlines()
    assert stop.startswith("STOP: 2 machines are slower than one")
    assert (empty, advice.split(",")[0]) == ("", "advice: exchange with diloco")
    assert took.startswith("(the check took")
    assert "network: 96 Mbit/s from node0 to node1; 88 Mbit/s from" in page_of(
        forecast(measured)
    )


def test_updates_that_powersgd_makes_exactly_are_told():
    job = msgspec.structs.replace(JOB, warmup_steps=300)
    late = forecast(msgspec.structs.replace(two(), job=job))
    assert "powersgd makes the first 300 updates as ddp does" in page_of(late)
    assert "powersgd makes" not in page_of(forecast(two()))
