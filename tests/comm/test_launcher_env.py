"""What the variables of each launcher mean, and what they cannot mean."""

import pytest

from unisono.comm.bootstrap.launcher_env import (
    FOREIGN_TORCHRUN,
    NO_SECRET,
    OUR_AGENT,
    LauncherEnv,
    launcher_env_from,
    leader_endpoint,
    security_warnings,
)
from unisono.errors import ConfigError
from unisono.secure.secret import SECRET, new_secret

TORCHRUN = {
    "RANK": "3",
    "WORLD_SIZE": "4",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "2",
    "MASTER_ADDR": "10.0.0.1",
    "MASTER_PORT": "29500",
}
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "1",
    "OMPI_COMM_WORLD_SIZE": "2",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
    "PMIX_NAMESPACE": "2134835201",
}
MPICH = {"PMI_RANK": "0", "PMI_SIZE": "2", "MPI_LOCALRANKID": "0", "MPI_LOCALNRANKS": "2"}
SLURM = {
    "SLURM_PROCID": "4",
    "SLURM_NTASKS": "5",
    "SLURM_LOCALID": "0",
    "SLURM_NODEID": "2",
    "SLURM_TASKS_PER_NODE": "2(x2),1",
    "SLURM_JOB_ID": "12",
    "SLURM_STEP_ID": "0",
    "SLURM_STEP_NODELIST": "n[1-3]",
}


def numbers(env):
    return env.rank, env.size, env.local_rank, env.local_size


@pytest.mark.parametrize(
    ("variables", "launcher", "wanted"),
    [
        ({}, "alone", (0, 1, 0, 1)),
        (TORCHRUN, "torchrun", (3, 4, 1, 2)),
        (OPEN_MPI, "Open MPI", (1, 2, 1, 2)),
        (MPICH, "MPICH", (0, 2, 0, 2)),
        (SLURM, "Slurm", (4, 5, 0, 1)),
        (
            {**SLURM, "SLURM_PROCID": "3", "SLURM_LOCALID": "1", "SLURM_NODEID": "1"},
            "Slurm",
            (3, 5, 1, 2),
        ),
    ],
)
def test_each_launcher_is_understood(variables, launcher, wanted):
    env = launcher_env_from(variables)
    assert env.launcher == launcher
    assert numbers(env) == wanted


def test_the_innermost_launcher_counts():
    inside_srun = {**SLURM, **TORCHRUN, "TORCHELASTIC_RUN_ID": "7"}
    assert launcher_env_from(inside_srun).launcher == "torchrun"
    assert launcher_env_from({**SLURM, **OPEN_MPI}).launcher == "Open MPI"


def test_a_shell_in_a_slurm_job_is_no_process_of_srun():
    shell = {name: value for name, value in SLURM.items() if name != "SLURM_STEP_ID"}
    assert launcher_env_from(shell) == LauncherEnv()
    assert launcher_env_from({**shell, "SLURM_STEP_ID": "batch"}) == LauncherEnv()


@pytest.mark.parametrize(
    ("changed", "shown"),
    [
        ({"WORLD_SIZE": "4"}, ("WORLD_SIZE is 4", "SLURM_NTASKS is 5")),
        ({"RANK": "0", "WORLD_SIZE": "5"}, ("RANK is 0", "SLURM_PROCID is 4")),
    ],
)
def test_a_contradiction_shows_both(changed, shown):
    with pytest.raises(ConfigError) as error:
        launcher_env_from({**SLURM, **changed})
    assert all(part in str(error.value) for part in shown)


def test_agreement_is_no_contradiction():
    assert launcher_env_from({**SLURM, "RANK": "4", "WORLD_SIZE": "5"}).launcher == "Slurm"


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"RANK": "0", "WORLD_SIZE": "2"}, "not LOCAL_RANK, LOCAL_WORLD_SIZE"),
        ({**TORCHRUN, "RANK": "x"}, "RANK is 'x'"),
        ({**TORCHRUN, "RANK": "4"}, "process 4 of 4"),
        ({**TORCHRUN, "LOCAL_RANK": "2"}, "2 of 2 on this machine"),
        ({"OMPI_COMM_WORLD_RANK": "0"}, "not OMPI_COMM_WORLD_SIZE"),
    ],
)
def test_halves_and_impossible_places_are_errors(variables, said):
    with pytest.raises(ConfigError, match=said):
        launcher_env_from(variables)


def test_ranks_of_machines_are_not_taken_for_ranks_of_processes():
    with pytest.raises(ConfigError) as error:
        launcher_env_from(
            {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "a", "MASTER_PORT": "1"}
        )
    assert "PyTorchJob" in error.value.fix
    assert '--node-rank "$RANK"' in error.value.fix


def nobody(hosts):
    raise AssertionError(hosts)


def test_processes_meet_where_the_launcher_says():
    assert leader_endpoint(launcher_env_from(TORCHRUN), nobody) == ("10.0.0.1", 29500)


def test_processes_of_one_machine_meet_on_its_loopback():
    address, port = leader_endpoint(launcher_env_from(OPEN_MPI), nobody)
    assert address == "127.0.0.1"
    other = leader_endpoint(
        launcher_env_from({**OPEN_MPI, "PMIX_NAMESPACE": "2134835202"}), nobody
    )
    assert 20_000 <= port < 32_000
    assert other[1] != port


def test_processes_of_slurm_meet_on_the_first_host():
    asked = []
    address, _ = leader_endpoint(
        launcher_env_from(SLURM), lambda hosts: asked.append(hosts) or "n1"
    )
    assert (address, asked) == ("n1", ["n[1-3]"])


def test_an_address_nobody_knows_is_an_error():
    spread = {**OPEN_MPI, "OMPI_COMM_WORLD_SIZE": "4"}
    with pytest.raises(ConfigError, match="Open MPI does not say where process 0 is"):
        leader_endpoint(launcher_env_from(spread), nobody)
    assert leader_endpoint(launcher_env_from({**spread, "MASTER_ADDR": "h"}), nobody)[0] == "h"


def test_what_strangers_can_do_is_said_where_a_launcher_leaves_it_open():
    agent = {**TORCHRUN, "TORCHELASTIC_RUN_ID": "1"}
    secret = {SECRET: new_secret()}
    for variables, wanted in (
        ({**agent, OUR_AGENT: "1", **secret}, ()),
        ({**agent, OUR_AGENT: "1"}, (NO_SECRET,)),
        ({**agent, **secret}, (FOREIGN_TORCHRUN,)),
        (agent, (FOREIGN_TORCHRUN, NO_SECRET)),
        (SLURM, (NO_SECRET,)),
        ({**SLURM, **secret}, ()),
        (OPEN_MPI, ()),  # on one machine no other user reaches its sockets
    ):
        assert security_warnings(launcher_env_from(variables), variables) == wanted
