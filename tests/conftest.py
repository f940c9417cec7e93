import os
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as the command line does
if not Path("/dev/nvidiactl").exists():
    os.environ["TRITON_INTERPRET"] = "1"  # kernels run on CPUs; triton asks when it is imported

# The machine may be busy: slow is no failure. The same examples every time: no flaky runs.
settings.register_profile(
    "unisono", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("unisono")

# Started in the background, this process ignores Ctrl-C, and so would all that it starts.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items):
    """Sort tests by how long they take, so that the end does not wait for the longest alone.

    Of those marked `long` the shortest come first: there may not be time for all.
    """
    items.sort(key=_turn)


def _turn(item):
    if long := item.get_closest_marker("long"):
        return long.kwargs["minutes"]
    if item.get_closest_marker("slow"):
        return -2
    return -1 if item.get_closest_marker("ranks") else 0


@pytest.fixture(scope="session")
def corpus_home(tmp_path_factory):
    """A directory with a tiny prepared corpus in it; treat it as read-only."""
    from support.tiny import tiny_corpus

    return tiny_corpus(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def browser():
    """A real browser, for pages."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is missing")
    from report.browser import CHROMIUM

    if CHROMIUM is None:
        pytest.skip("there is no chromium here")
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(
            executable_path=CHROMIUM, args=["--disable-dev-shm-usage"]
        )
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def able():
    """Skip what needs a laboratory where none can be made."""
    from unisono.errors import ConfigError
    from unisono.lab.commands import check_requirements
    from unisono.lab.plan import LabPlan

    try:
        check_requirements(LabPlan(link="1mbit"))
    except ConfigError as error:
        pytest.skip(f"no laboratory here: {error}")


@pytest.fixture(scope="session", params=[2, 4], ids=lambda n: f"{n} ranks")
def ranks(request):
    """Two, then four real processes joined by gloo."""
    from support.ranks import Ranks

    group = Ranks(request.param)
    yield group
    group.close()


@pytest.fixture(scope="session")
def two_by_two():
    """Four real processes that say they are two each on two machines."""
    from support.ranks import Ranks

    group = Ranks(4, workers=2)
    yield group
    group.close()


@pytest.fixture(scope="session")
def three_by_two():
    """Six real processes that say they are two each on three machines."""
    from support.ranks import Ranks

    group = Ranks(6, workers=2)
    yield group
    group.close()


@pytest.fixture
def one_core():
    """Train on one core: on a busy machine, two threads wait for each other."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    yield
    os.sched_setaffinity(0, cores)
