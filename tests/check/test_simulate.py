"""`unisono simulate`, as a user calls it."""

import json

import pytest
from click.testing import CliRunner

from unisono.check.paper import Job, outlooks
from unisono.cli.simulate import simulate
from unisono.errors import ConfigError
from unisono.models.settings import PRESETS, TransformerSettings
from unisono.physics.link import nominal_link

FIELD = ["--model", "base", "--gpu", "V100", "--gpus-per-node", "2", "--link", "1gbit"]


def said(*arguments):
    result = CliRunner().invoke(simulate, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def test_a_second_machine_on_a_slow_link_is_warned_of():
    told = json.loads(said(*FIELD, "--nodes", "1,2", "--json"))
    one, two = told["nodes"]
    assert told["parameters"] == 60_524_544
    assert one["ways"][0]["stop"] == ""
    ddp = two["ways"][0]
    assert ddp["bytes_per_exchange"] == pytest.approx(363.1e6, rel=1e-3)
    assert "slower than one" in ddp["stop"]
    assert ddp["speedup"] < 1
    assert two["advised"] == "4-bit"


@pytest.mark.parametrize(
    ("link", "advised"), [("100gbit", "ddp"), ("1gbit", "4-bit"), ("100mbit", "diloco")]
)
def test_the_slower_the_link_the_more_drastic_the_advice(link, advised):
    told = json.loads(said(*FIELD, "--link", link, "--nodes", "2", "--json"))
    assert told["nodes"][0]["advised"].split(",")[0] == advised


def test_the_page_says_the_same():
    page = said(*FIELD, "--nodes", "1,2", "--price", "2.50")
    assert "stop: with ddp (363 MB an update), 2 machines are slower than one" in page
    assert "money" in page
    assert "money" not in said(*FIELD)


def test_a_fast_link_makes_machines_add_up_and_costs_stay():
    job = Job(TransformerSettings(**PRESETS["base"]), 32000, 65536, 28, 1e12, 1000, price=1.0)
    one, four = outlooks(job, [1, 4], 1, nominal_link(100e9))
    assert four.advised.speedup == pytest.approx(4, rel=0.05)
    assert four.advised.bill.money == pytest.approx(one.advised.bill.money, rel=0.05)
    assert four.advised.warning == ""


def test_machines_that_fewer_would_do_without_are_warned_of():
    many = [*FIELD, "--link", "5gbit", "--nodes", "16,1,4,2"]
    told = {one["nodes"]: one for one in json.loads(said(*many, "--json"))["nodes"]}
    ddp = {count: one["ways"][0] for count, one in told.items()}
    # A larger ring sends more, and there is less computing to hide it.
    assert 1 < ddp[4]["speedup"] < ddp[2]["speedup"]
    assert ddp[4]["stop"].startswith("4 machines are slower than 2: 0.9")
    assert "waiting for the network" in ddp[2]["stop"]
    assert "16 machines are slower than 2" in ddp[16]["stop"]
    assert [told[count]["advised_nodes"] for count in (1, 2, 4, 16)] == [1, 2, 4, 16]


def test_where_no_exchange_makes_more_machines_faster_fewer_are_advised():
    job = Job(TransformerSettings(**PRESETS["base"]), 32000, 4096, 28, 1e13, 1000)
    by_count = {one.nodes: one for one in outlooks(job, [64, 8], 1, nominal_link(100e6))}
    assert by_count[64].advised.speedup < by_count[8].advised.speedup
    assert (by_count[8].fewer, by_count[64].fewer) == (0, 8)
    page = said("--tokens-per-update", "4096", "--nodes", "8,64", "--link", "100mbit")
    assert "; 8 would do" in page


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--gpu", "cpu"], "give --tflops"),
        (["--model", "huge"], "no preset is called huge"),
        (["--gpu", "K80"], "no device is called K80"),
        (["--nodes", "1,x"], "not a list of numbers"),
        (["--nodes", "0"], "not a list of numbers"),
        (["--link", "fast"], "cannot be read"),
    ],
)
def test_what_cannot_be_is_refused(arguments, message):
    with pytest.raises(ConfigError, match=message):
        CliRunner().invoke(simulate, arguments, catch_exceptions=False)
