"""What a laboratory will look like, before there is one."""

import shlex

import pytest
from click.testing import CliRunner

from unisono.cli import unisono
from unisono.errors import ConfigError
from unisono.lab.build import dry_run, plan_agent
from unisono.lab.commands import cores_of, shape_received, shape_sent
from unisono.lab.plan import LabPlan, Shape, address_of, hosts_file, shape_of
from unisono.launch.plan import Command

SLOW_SECOND = LabPlan(nodes=2, link="100mbit", link_from={1: "10mbit"})


@pytest.mark.parametrize(
    ("written", "bits"),
    [("100mbit", 1e8), ("1.5gbit", 1.5e9), ("64 kbit", 64e3), (" 10MBIT ", 1e7)],
)
def test_rates_are_bits_a_second(written, bits):
    assert shape_of(written).bits_per_second == bits


def test_a_burst_is_some_milliseconds_of_the_rate():
    rates = ["1mbit", "20mbit", "100mbit", "200mbit", "8gbit"]
    bursts = [shape_of(rate).burst_bytes for rate in rates]
    assert bursts == [8192, 12_500, 62_500, 65536, 1_000_000]
    assert shape_of("100mbit", "16kb").burst_bytes == 16384
    assert shape_of("") == Shape()


@pytest.mark.parametrize(
    "settings",
    [
        {"link": "fast"},
        {"link": "100"},
        {"link": "0mbit"},
        {"link": "-1mbit"},
        {"link": "100mb"},
        {"link": "1mbit", "burst": "1gbit"},
        {"link": "1mbit", "burst": "1kb"},
        {"delay": "5"},
        {"nodes": 0},
        {"nodes": 65},
        {"nodes": 2, "link_from": {2: "1mbit"}},
        {"link_from": {1: "1mbyte"}},
    ],
    ids=str,
)
def test_what_cannot_be_is_refused_with_a_way_out(settings):
    with pytest.raises(ConfigError) as error:
        LabPlan(**settings)
    assert error.value.where.startswith("--")
    assert error.value.fix


def test_only_the_named_node_sends_slowly():
    rates = [SLOW_SECOND.shape_sent(node).bits_per_second for node in (0, 1)]
    assert rates == [1e8, 1e7]
    received = [SLOW_SECOND.shape_received(node).bits_per_second for node in (0, 1)]
    assert received == [1e8, 1e8]


def test_a_link_without_limit_is_left_alone_and_can_be_freed_again():
    assert shape_sent("7", Shape()) == []
    (freed,) = shape_received(1, "7", Shape(), anew=True)
    assert freed[-2:] == ("root", "noqueue")


def test_a_delay_comes_before_the_rate_and_only_once_a_way():
    plan = LabPlan(link="1mbit", delay="5ms")
    delay, rate = shape_sent("7", plan.shape_sent(0))
    assert "netem delay 5000us" in shlex.join(delay)
    assert "parent 1:1 handle 10: tbf rate 1000000bit" in shlex.join(rate)
    assert "netem" not in str(shape_received(0, "7", plan.shape_received(0)))


@pytest.mark.parametrize("nodes", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("cores", [[1], [0, 1], [2, 3, 5, 7]])
def test_nodes_share_the_cores_and_each_has_one(nodes, cores):
    shares = [cores_of(node, nodes, cores) for node in range(nodes)]
    assert all(shares)
    if nodes <= len(cores):
        assert [core for share in shares for core in share] == cores


def test_every_node_knows_the_names_of_all():
    lines = [line.split() for line in hosts_file(3).splitlines()]
    known = {name: address for address, name in lines}
    assert {known[f"node{node}"] for node in range(3)} == {address_of(n) for n in range(3)}
    assert known["localhost"] == "127.0.0.1"


def test_one_node_hosts_the_store_and_all_agree_where():
    plan = LabPlan(nodes=3, workers_per_node=2)
    words = [plan_agent(plan, node, ["train", "x.toml"]).argv for node in range(3)]
    hosts = ["--rdzv-conf=is_host=1" in argv for argv in words]
    assert hosts == [True, False, False]
    for argv in words:
        assert {"--nnodes=3", "--nproc-per-node=2", "--rdzv-endpoint=node0:29500"} < {*argv}
        assert argv[-4:] == ("-m", "unisono", "train", "x.toml")


def test_a_rehearsal_is_a_shell_script_of_all_that_would_be_done():
    page = dry_run(SLOW_SECOND, [(1, Command(("echo", "a b"), {"X": "1"}))], [0, 1])
    assert "ip link add port1 type veth peer name eth0 netns $node1" in page
    assert "--target $node1 --net tc qdisc replace dev eth0 root handle 10: tbf rate 10" in page
    assert page.splitlines()[-1].startswith("X=1 nsenter --target $node1 ")
    assert page.splitlines()[-1].endswith(" taskset --cpu-list 1 echo 'a b'")


def lab(*words):
    return CliRunner().invoke(unisono, ["lab", *words])


def test_a_dry_run_shows_the_agents_of_all_nodes():
    shown = lab("--nodes", "3", "--dry-run", "--", "train", "x.toml", "--set", "seed=2")
    assert shown.exit_code == 0, shown.output
    ends = [line for line in shown.output.splitlines() if line.endswith("--set seed=2")]
    assert [f"--target $node{node} " in end for node, end in enumerate(ends)] == [True] * 3


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--on", "1", "--", "train", "x.toml"), "`train` runs on all nodes"),
        (("--on", "2", "--", "bash"), "there is no node 2"),
        (("--on", "x", "--", "bash"), '"x" is not a node'),
        (("--link-from", "10mbit", "--", "bash"), "does not name a node"),
        (("--", "report", "x"), "there is no program `report`"),
        (("--", "no-such-program"), "there is no program `no-such-program`"),
    ],
)
def test_a_command_that_cannot_be_is_refused_before_anything_is_made(words, says):
    refused = lab(*words)
    assert isinstance(refused.exception, ConfigError)
    assert says in str(refused.exception)
