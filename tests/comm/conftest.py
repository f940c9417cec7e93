import pytest

from unisono.errors import ConfigError
from unisono.lab.plan import LabPlan
from unisono.lab.requirements import check_requirements


@pytest.fixture(scope="session")
def able():
    """Skip what needs a laboratory where none can be made."""
    try:
        check_requirements(LabPlan())
    except ConfigError as error:
        pytest.skip(f"no laboratory here: {error}")
