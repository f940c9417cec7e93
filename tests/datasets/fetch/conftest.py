import hashlib
import random

import pytest

from support.bad_server import BadServer
from unisono.datasets.fetch import Remote, RetryPolicy, fetch

PROXIES = ("http_proxy", "https_proxy", "no_proxy", "all_proxy")


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture(scope="session")
def body():
    """What the server has: 200,000 bytes that repeat nowhere."""
    return random.Random(5).randbytes(200_000)


@pytest.fixture
def server():
    with BadServer() as started:
        yield started


@pytest.fixture
def mirror():
    with BadServer() as started:
        yield started


class Getting:
    """Fetches with little patience; remembers the pauses and the progress."""

    def __init__(self, directory):
        self.directory, self.pauses, self.progress = directory, [], []
        self.policy = RetryPolicy(timeout=5.0, sleep=self.pauses.append)

    def __call__(self, remote, **options):
        steps = fetch(remote, self.directory, **{"policy": self.policy, **options})
        while True:
            try:
                self.progress.append(next(steps))
            except StopIteration as end:
                return end.value

    @property
    def files(self):
        return sorted(path.name for path in self.directory.iterdir())


@pytest.fixture
def get(tmp_path):
    return Getting(tmp_path / "downloads")


@pytest.fixture
def known(body):
    """Return a remote with all that can be known of the file."""

    def make(*urls, **changes):
        facts = {"bytes": len(body), "sha256": hashlib.sha256(body).hexdigest(), **changes}
        return Remote("a.gz", urls, **facts)

    return make
