import shutil

import pytest

from support import slurm, ssh
from unisono.errors import ConfigError
from unisono.lab.commands import check_requirements
from unisono.lab.plan import LabPlan


@pytest.fixture(scope="session")
def able():
    """Skip what needs machines with ssh where none can be made."""
    if ssh.SSHD is None or shutil.which("ssh") is None:
        pytest.skip("no ssh server here: apt-get install openssh-server")
    try:
        check_requirements(LabPlan())
    except ConfigError as error:
        pytest.skip(f"no laboratory here: {error}")


@pytest.fixture(scope="session")
def cluster():
    """Two nodes of Slurm."""
    if slurm.missing():
        pytest.skip(f"no Slurm here ({', '.join(slurm.missing())}): apt-get install slurm-wlm")
    with slurm.Slurm() as nodes:
        yield nodes
