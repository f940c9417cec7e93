"""How many machines torchrun was asked for."""

import pytest

from unisono.comm.bootstrap.launcher_env import check_nodes, requested_nodes
from unisono.errors import RunError

SCRIPT = ["-m", "unisono", "train", "x.toml"]


@pytest.mark.parametrize(
    ("options", "variables", "nodes"),
    [
        ([], {}, ""),
        (["--nnodes=2"], {}, "2"),
        (["--nnodes", "3"], {}, "3"),
        (["--nnodes=2:2"], {}, "2"),
        (["--nnodes=1:4"], {}, ""),
        ([], {"PET_NNODES": "4"}, "4"),
        (["--nnodes=2"], {"PET_NNODES": "4"}, "2"),
    ],
)
def test_a_command_of_torchrun_says_it(options, variables, nodes):
    assert requested_nodes(["python", "torchrun", *options, *SCRIPT], variables) == nodes


def test_fewer_machines_than_asked_are_an_error():
    under = {"TORCHELASTIC_RUN_ID": "x", "UNISONO_NODES": "2"}
    check_nodes({**under, "GROUP_WORLD_SIZE": "2"})
    check_nodes({"UNISONO_NODES": "2", "GROUP_WORLD_SIZE": "1"})  # left over, no torchrun here
    with pytest.raises(RunError, match="asked for 2 machines, but continues with 1"):
        check_nodes({**under, "GROUP_WORLD_SIZE": "1"})
