"""`unisono simulate`, as a user calls it."""

import json

import pytest
from click.testing import CliRunner

from unisono.check.simulate import SimulatedJob, simulate_run
from unisono.cli.simulate import simulate
from unisono.cost_model.exchange import nominal_link
from unisono.errors import ConfigError
from unisono.models.settings import PRESETS, TransformerSettings

BASE = TransformerSettings(**PRESETS["base"])
FIELD = ["--model", "base", "--gpu", "V100", "--gpus-per-node", "2", "--link", "1gbit"]
# What two V100s reached in the field, in fp32 (2019): fast enough to wait for 1 Gbit/s.
SLOWER = [*FIELD, "--tflops", "6.28"]


def told_by(*arguments):
    """Return what JSON says, by number of machines."""
    return {one["nodes"]: one for one in json.loads(said(*arguments, "--json"))["nodes"]}


def said(*arguments):
    result = CliRunner().invoke(simulate, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def test_a_second_machine_on_a_slow_link_is_warned_of():
    told = json.loads(said(*SLOWER, "--nodes", "1,2", "--json"))
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
    told = told_by(*SLOWER, "--link", link, "--nodes", "2")
    assert told[2]["advised"].split(",")[0] == advised


def test_the_page_says_the_same():
    page = said(*FIELD, "--nodes", "1,2", "--price", "2.50")
    assert "stop: with ddp (363 MB an update), 2 machines are slower than one" in page
    assert "money" in page
    assert "money" not in said(*FIELD)


def test_a_fast_link_makes_machines_add_up_and_costs_stay():
    job = SimulatedJob(BASE, 32000, 65536, 28, 1e12, 1000, price=1.0)
    one, four = simulate_run(job, [1, 4], 1, nominal_link(100e9)).found.by_machines
    assert four.best.speedup == pytest.approx(4, rel=0.05)
    assert four.best.money == pytest.approx(one.best.money, rel=0.05)
    assert four.best.stop == ""


def test_machines_that_fewer_would_do_without_are_warned_of():
    told = told_by(*SLOWER, "--link", "5gbit", "--nodes", "16,1,4,2")
    ddp = {count: one["ways"][0] for count, one in told.items()}
    # A larger ring sends more, and there is less computing to hide it.
    assert 1 < ddp[4]["speedup"] < ddp[2]["speedup"]
    assert ddp[4]["stop"].startswith("4 machines are slower than 2: 0.9")
    assert "waiting for the network" in ddp[2]["stop"]
    assert "16 machines are slower than 2" in ddp[16]["stop"]
    assert [told[count]["advised_nodes"] for count in (1, 2, 4, 16)] == [1, 2, 4, 16]


def test_where_no_exchange_makes_more_machines_faster_fewer_are_advised():
    job = SimulatedJob(BASE, 32000, 4096, 28, 1e13, 100_000, 0.0, 4000, 2000)
    found = simulate_run(job, [64, 4, 8], 1, nominal_link(100e6)).found
    by_count = {some.machines: some for some in found.by_machines}
    assert by_count[8].best.speedup < by_count[4].best.speedup
    assert [found.enough(by_count[count]) for count in (1, 4, 8, 64)] == [0, 0, 4, 4]
    page = said("--tokens-per-update", "4096", "--nodes", "4,64", "--link", "100mbit")
    assert "; 4 would do" in page


def test_one_machine_is_always_shown():
    assert list(told_by(*FIELD, "--nodes", "2")) == [1, 2]
    assert list(told_by(*FIELD, "--nodes", "4, 2,2,4")) == [1, 2, 4]
    assert "       1  ddp " in said(*FIELD, "--nodes", "2")


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize("link", ["100mbit", "2gbit", "100gbit"])
def test_so_many_machines_are_never_more_than_so_many_times_as_fast(precision, link):
    common = [*FIELD, "--tokens-per-update", "28672", "--link", link]
    told = told_by(*common, "--precision", precision, "--nodes", "2,4,16")
    for count, outlook in told.items():
        assert all(way["speedup"] <= count for way in outlook["ways"])


def test_the_optimizer_takes_every_device_as_long():
    job = SimulatedJob(BASE, 32000, 32768, 28, 1e13, 1000)
    one, many = job.work(1), job.work(16)
    assert many.forward == pytest.approx(one.forward / 16)
    assert many.optimizer == one.optimizer > 0
    assert one.optimizer < 0.01 * (one.forward + one.backward + one.optimizer)


def test_no_device_is_faster_than_its_kernels_are_launched():
    job = SimulatedJob(BASE, 32000, 32768, 28, 1e13, 1000)
    half, tiny, none = job.busy_tokens / 2, job.work(10_000), job.work(1_000_000)
    assert tiny == none
    assert tiny.forward + tiny.backward == pytest.approx(job.launch_seconds)
    enough = SimulatedJob(BASE, 32000, round(4 * half), 28, 1e13, 1000).work(1)
    assert enough.forward + enough.backward == pytest.approx(2 * job.launch_seconds, rel=1e-3)


def test_machines_that_go_apart_pay_for_every_meeting():
    common = [*FIELD, "--link", "100mbit", "--nodes", "2", "--steps", "10000"]

    def diloco(*arguments):
        return told_by(*common, *arguments)[2]["ways"][-1]

    never = diloco("--validate-every", "0", "--save-every", "0")
    usual = diloco()
    often = diloco("--validate-every", "100", "--save-every", "250")
    # At 2000, 4000 … 10000; at multiples of 100 and of 250, once where both are due; at last.
    assert [way["meetings"] for way in (never, usual, often)] == [1, 5, 100 + 40 - 20]
    assert usual["step_seconds"] == often["step_seconds"]
    more = (often["hours"] - usual["hours"]) * 3600
    assert more == pytest.approx((120 - 5) * usual["meeting_seconds"], rel=1e-6)
    # Weights and two moments, two bytes each, at 94 of 100 Mbit/s.
    assert usual["meeting_seconds"] == pytest.approx(60_524_544 * 6 / 11.75e6, rel=0.01)
    assert "exchange all weights 5 times" in said(*common)


def test_a_checkpoint_of_many_machines_costs_no_more_than_one_of_few():
    def hours(*arguments):
        told = told_by("--nodes", "4,16,1000", "--link", "1gbit", *arguments)
        ways = {count: some["ways"] for count, some in told.items() if count > 1}
        return {count: some[-2]["hours"] for count, some in ways.items()}

    usual, never = hours(), hours("--save-every", "0")
    each = {count: (usual[count] - never[count]) * 3600 / 50 for count in usual}
    one = 60_524_544 * 4 / 117.5e6
    wanted = {4: 3 * one, 16: 2 * 15 / 16 * one, 1000: 1.998 * one}
    assert each == pytest.approx(wanted, rel=1e-4)


def test_the_page_says_what_depends_on_the_assumed_rate():
    # At 4 Gbit/s the choice hangs on the rate, at 400 Gbit/s it does not.
    common = [*FIELD, "--precision", "fp16", "--nodes", "2", "--link", "4gbit"]
    assert "if devices computed 20% faster: diloco, every 1 for 2 machines" in said(*common)
    two = told_by(*common)[2]
    assert (two["advised"], two["advised_if_faster"]) == ("4-bit", "diloco, every 1")
    firm = said(*common, "--link", "400gbit")
    assert "20% slower or faster would change no advice and no warning" in firm


def test_ranges_are_those_of_slower_and_faster_devices():
    two = told_by(*FIELD, "--tflops", "5", "--nodes", "2")[2]["ways"]
    for tflops, place in (("6", 0), ("4", 1)):
        other = told_by(*FIELD, "--tflops", tflops, "--nodes", "2")[2]["ways"]
        for way, same in zip(two, other, strict=True):
            assert way["step_seconds_range"][place] == pytest.approx(same["step_seconds"])


def test_json_has_its_format_and_what_was_asked():
    told = json.loads(said(*FIELD, "--nodes", "2,2,1", "--price", "2.5", "--json"))
    assert told["format"] == 1
    assert told["inputs"]["nodes"] == [1, 2]
    assert (told["inputs"]["gpu"], told["inputs"]["price"]) == ("V100", 2.5)
    free = json.loads(said(*FIELD, "--json"))["nodes"][0]["ways"][0]
    assert free["money"] is None
    assert free["hours"] > 0


def test_a_plot_is_drawn_where_it_was_asked_for(tmp_path):
    plot = tmp_path / "machines.svg"
    assert said(*FIELD, "--nodes", "2", "--plot", str(plot)).startswith("base: ")
    assert plot.read_text().startswith("<svg ")


def test_updates_that_grow_give_every_machine_as_much_to_do():
    grown = told_by("--nodes", "1,2,8", "--tokens-per-machine", "20000")
    alone = told_by("--nodes", "1", "--tokens-per-update", "20000")[1]["ways"][0]
    for count, some in grown.items():
        for way in some["ways"]:
            assert way["computing"] == pytest.approx(alone["computing"]), count
    for way in grown[8]["ways"]:
        # As many tokens in an eighth of the updates: hours follow the speed in tokens.
        assert way["speedup"] == pytest.approx(alone["hours"] / way["hours"], rel=1e-6)
        assert way["speedup"] == pytest.approx(
            8 * alone["update_seconds"] / way["update_seconds"], rel=1e-6
        )
    assert "may need more of them" in said("--nodes", "2", "--tokens-per-machine", "20000")


def test_devices_with_too_few_tokens_are_named():
    page = said("--gpu", "V100", "--gpus-per-node", "2", "--nodes", "1,1000")
    assert "on 1000 machines each device gets 16 tokens an update" in page
    assert "it takes 20.0 ms to launch its kernels (estimated)" in page
    assert "on 1 machine each" not in page
    assert "--tokens-per-machine" in page
    assert "to be busy" not in said("--nodes", "1,1000", "--tokens-per-machine", "32768")


def test_large_numbers_stay_in_their_columns():
    page = said("--nodes", "1,1000", "--price", "40", "--link", "10mbit", "--steps", "9000000")
    table = page.split("\n\n")[1].splitlines()
    header = table[0].split()
    rows = [line for line in table[1:] if line[:8].strip().isdecimal()]
    ends = [table[0].index(name) + len(name) for name in ("hours", "money", "speed")]
    assert header[-3:] == ["hours", "money", "speed"]
    for row in rows:
        assert all(row[end : end + 1] in ("", " ") for end in ends), row
        assert len(row) == ends[-1]
    assert any(len(row.split()[-2]) > 11 for row in rows)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--gpu", "cpu"], "give --tflops"),
        (["--model", "huge"], "no preset is called huge"),
        (["--gpu", "K80"], "no device is called K80"),
        (["--nodes", "1,x"], "not a list of numbers"),
        (["--nodes", "0"], "not a list of numbers"),
        (["--nodes", "2000"], "not a list of numbers from 1 to 1024"),
        (["--link", "fast"], "cannot be read"),
        (["--gpu", "P100", "--precision", "bf16"], "a P100 cannot compute in bf16"),
        (["--plot", "/nowhere/at/all.svg"], "cannot be written"),
    ],
)
def test_what_cannot_be_is_refused(arguments, message):
    with pytest.raises(ConfigError, match=message):
        CliRunner().invoke(simulate, arguments, catch_exceptions=False)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--length", "0"],
        ["--length", "nan"],
        ["--tokens-per-update", "0"],
        ["--tokens-per-update", "-100"],
        ["--tflops", "nan"],
        ["--tflops", "inf"],
        ["--price", "-3"],
        ["--price", "nan"],
        ["--save-every", "-1"],
        ["--gpus-per-node", "0"],
    ],
)
def test_numbers_that_are_none_are_refused(arguments):
    result = CliRunner().invoke(simulate, arguments)
    assert result.exit_code == 2
    assert arguments[0] in result.output
