"""What `launch` plans: hosts, command lines, options that contradict each other."""

import shlex
import subprocess

import pytest
from click.testing import CliRunner

from support.tiny import tiny_settings
from unisono.cli import unisono
from unisono.clock_skew import ClockOffset
from unisono.config.load import to_toml
from unisono.errors import ConfigError
from unisono.launch.plan import Host, RendezvousPoint, parse_hosts
from unisono.launch.preflight import MachineReport, differences_between, differing_settings
from unisono.launch.probe_client import Facts, ssh_advice
from unisono.launch.ssh import Ssh


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "x.toml"
    path.write_text(to_toml(tiny_settings(tmp_path)))
    return path


def launch(*words):
    return CliRunner().invoke(unisono, ["launch", *map(str, words)])


@pytest.mark.parametrize(
    ("said", "helps"),
    [
        ("ssh: Could not resolve hostname b: Name or service not known", "~/.ssh/config"),
        ("ssh: connect to host b port 22: Connection refused", "no ssh server listens"),
        ("ssh: connect to host b port 22: Connection timed out", "firewall"),
        ("me@b: Permission denied (publickey).", "`ssh-copy-id me@b`"),
        ("Host key verification failed.", "`ssh me@b true` by hand"),
        ("kex_exchange_identification: read", "make `ssh me@b true` work"),
    ],
)
def test_what_ssh_says_decides_what_helps(said, helps):
    assert helps in ssh_advice(said, "me@b")


def test_hosts_have_slots_of_their_own_or_those_of_all():
    assert parse_hosts("a,b:3, me@c.example.org", 2) == (
        Host("a", 2),
        Host("b", 3),
        Host("me@c.example.org", 2),
    )


@pytest.mark.parametrize(
    "text",
    ["", "a,", "-oProxyCommand=x", "a,-l", "a b", "a;b", "$(x)", "a:0", "a:-1", "a:x", "a:"]
    + ["a@-b", "-a@b", "a:1:2", "::1", "a,a", "a\nb", "ä", "a:٣", "a:99999"],
)
def test_what_is_no_host_never_reaches_ssh(text):
    with pytest.raises(ConfigError):
        parse_hosts(text, 2)


def test_every_word_arrives_on_the_other_side_as_it_was():
    words = (
        "printf",
        "%s\\n",
        "two words",
        "it's",
        '"',
        "$HOME",
        "`id`",
        "a;b",
        "",
        "*",
        "ü\\",
    )
    command = Ssh().command("a", words, directory="/", variables={"NAME": "of $HOME; it's"})
    line = command[-1]
    # What sshd does with the line that it was sent.
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:-1] == list(words[2:])
    shown = subprocess.run(
        ["sh", "-c", Ssh().command("a", ["sh", "-c", "pwd; echo $NAME"], directory="/tmp")[-1]],
        capture_output=True,
        text=True,
        check=True,
        env={"NAME": "ours"},
    )
    assert shown.stdout == "/tmp\nours\n"


def test_ssh_is_asked_to_lend_nothing_and_to_ask_nobody():
    command = Ssh().command("a", ["true"])
    assert command[0] == "ssh"
    assert {"-a", "-x", "-T", "BatchMode=yes"} < set(command)
    assert "-A" not in command
    assert not any("StrictHostKeyChecking" in word for word in command)
    assert command[-3:] == ("--", "a", "exec true")


def test_addresses_of_both_kinds_become_endpoints():
    assert RendezvousPoint("10.0.0.1", 2, "x", 7).endpoint == "10.0.0.1:7"
    assert RendezvousPoint("fe80::1", 2, "x", 7).endpoint == "[fe80::1]:7"


def test_settings_that_differ_are_named_with_both_values():
    here = {"run": "a", "train": {"max_steps": 3, "clip": 0.5}, "data": [1]}
    there = {"run": "a", "train": {"max_steps": 5, "clip": 0.5}, "data": [2], "new": 1}
    assert list(differing_settings(here, there)) == [
        "data is [2], here it is [1]",
        "new is 1, here it is None",
        "train.max_steps is 5, here it is 3",
    ]


@pytest.mark.parametrize(
    ("there", "says"),
    [
        ({"python": "3.12"}, "it has Python 3.12, a has 3.11"),
        ({"unisono": ""}, "it has Unisono (none), a has 1"),
        ({"code": "y"}, "the code of its Unisono 1 differs from that of a (y, not x)"),
        ({"corpus": "d", "pairs": 5}, "its corpus is d (5 pairs), a has c (7 pairs)"),
        ({"free_bytes": 9_000_000}, "9.0 MB are free, but the checkpoints may take 10.0 MB"),
        ({}, ""),
    ],
)
def test_what_differs_from_the_first_machine_or_does_not_suffice_is_said(there, says):
    facts = {"python": "3.11", "unisono": "1", "code": "x", "corpus": "c", "pairs": 7}
    facts |= {"free_bytes": 10**9, "needed_bytes": 10**7}
    first, second = Facts(**facts), Facts(**{**facts, **there})
    reports = [MachineReport(Host("a", 1), first), MachineReport(Host("b", 1), second)]
    found = dict(differences_between(reports, {}))
    assert [problem.what for problem in found["b"]] == [says] * bool(says)
    assert found["a"] == []


def test_clocks_may_differ_by_a_second_and_by_what_cannot_be_known():
    def apart(seconds, unsure):
        first = MachineReport(Host("a", 1), clock=ClockOffset(5.0, unsure))
        second = MachineReport(Host("b", 1), clock=ClockOffset(5.0 + seconds, unsure))
        return [problem.what for problem in dict(differences_between([first, second], {}))["b"]]

    assert apart(0.9, 0.0) == apart(-0.9, 0.0) == apart(1.9, 0.5) == []
    assert apart(1.2, 0.0) == ["the clock of b is 1.2 s ahead of that of a"]
    assert apart(-20.0, 0.1) == ["the clock of b is 20.0 s behind that of a"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--hosts", "a", "--slurm"], "--hosts and --slurm exclude each other"),
        (["--slurm", "--kubernetes"], "--slurm and --kubernetes exclude each other"),
        (["--image", "x"], "--image has no effect on this machine"),
        (["--hosts", "a", "--nodes", "2"], "--nodes has no effect with --hosts"),
        (["--slurm", "--ssh-config", "x"], "--ssh-config has no effect with --slurm"),
        (["--kubernetes", "--time", "1:00"], "--time has no effect with --kubernetes"),
        (["--check"], "--check has no effect on this machine"),
        (["--kubernetes"], "there is no container image"),
        (["--hosts", "a", "--env", "1=2"], "does not set a variable"),
        (["--slurm", "--sbatch", "a b"], "is not an option of sbatch"),
        (["--kubernetes", "--image", "x", "--volume", "claim"], "is not a volume"),
        (["--kubernetes", "--image", "x", "--resource", "gpu"], "is not an amount"),
        (["--kubernetes", "--image", "x", "--name", "My_Run"], "cannot be the name of"),
        (
            ["--kubernetes", "--image", "x", "--env", "PET_NNODES=1"],
            "Kubeflow sets PET_NNODES",
        ),
    ],
)
def test_options_that_contradict_or_say_nothing_are_errors(config, words, says):
    done = launch(config, "--dry-run", *words)
    assert isinstance(done.exception, ConfigError)
    assert says in str(done.exception)


def test_a_dry_run_shows_a_command_for_every_host_and_touches_nothing(config):
    done = launch(
        *(config, "--hosts", "a.invalid,b.invalid:3", "--workers", 2, "--dry-run"),
        *("--directory", "/data/my runs", "--python", "/opt/py/bin/python", "--env", "X=1 2"),
    )
    assert done.exit_code == 0, done.output
    commands = [shlex.split(line) for line in done.output.splitlines() if line[0] != "#"]
    assert [words[-2] for words in commands] == ["a.invalid", "b.invalid"] * 2
    first, second = (shlex.split(words[-1]) for words in commands[2:])
    assert first[:5] == ["cd", "/data/my runs", "&&", "exec", "env"]
    assert "X=1 2" in first
    assert {"--nnodes=2", "--nproc-per-node=2", "--rdzv-conf=is_host=1"} < {*first}
    assert {"--nnodes=2", "--nproc-per-node=3", "--rdzv-conf=is_host=0"} < {*second}
    assert "--rdzv-endpoint=a.invalid:29500" in first
    assert "--rdzv-endpoint=a.invalid:29500" in second
    assert sorted(path.name for path in config.parent.iterdir()) == ["x.toml"]


def test_restarts_reach_the_supervisor_and_torchrun_on_every_host(config):
    words = [config, "--hosts", "a.invalid,b.invalid", "--dry-run"]
    shown = launch(*words, "--restarts", 4, "--fewest", 1).output
    agents = [line for line in shown.splitlines() if "unisono.cli.agent" in line]
    assert len(agents) == 2
    for agent in agents:
        supervised, _, options = agent.partition("--nnodes=1:2")
        assert "unisono.cli.agent --supervise=4 --run=" in supervised
        assert "--max-restarts=4" in options
    plain = launch(*words).output
    assert "--supervise" not in plain
    assert "--max-restarts" not in plain
    assert plain.count("--nnodes=2") == 2


def test_restarts_on_this_machine(config):
    shown = launch(config, "--restarts", 2, "--dry-run").output
    assert "unisono.cli.agent --supervise=2 --run=" in shown
    assert "--max-restarts=2" in shown


def test_fewest_is_for_machines(config):
    done = launch(config, "--fewest", 1, "--dry-run")
    assert isinstance(done.exception, ConfigError)
    assert "--fewest has no effect on this machine" in str(done.exception)
