"""The record of where the machines of a launch keep the run."""

import pytest

from unisono.errors import ConfigError
from unisono.launch.places import Place, places_file, read_places, write_places

MACHINES = {"a": Place("/home/x/py", "/home/x/work dir"), "b": Place("/root/py", "/root/work")}


def test_places_are_found_again_and_name_the_run_on_each_machine(tmp_path):
    run = tmp_path / "runs" / "my run"
    assert read_places(run) is None
    write_places(run, MACHINES, run_there="runs/my run", ssh_config="/etc/other")
    found = read_places(run)
    assert found.machines == MACHINES
    assert found.ssh_config == "/etc/other"
    assert found.run_on("a") == "/home/x/work dir/runs/my run"
    write_places(run, MACHINES, run_there="/data/run")
    assert read_places(run).run_on("b") == "/data/run"
    assert not run.exists()


def test_a_damaged_record_is_named(tmp_path):
    places_file(tmp_path / "run").write_text('{"format": 1, "machines": {"a": 3}}')
    with pytest.raises(ConfigError, match=r"run\.places\.json"):
        read_places(tmp_path / "run")
