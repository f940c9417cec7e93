"""The endpoint at which Prometheus scrapes the series of runs."""

import threading
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from unisono.errors import RunError
from unisono.live.window import now_of
from unisono.publish.series import HELP, RunSeries, series_of
from unisono.records.follow import Follower

SERIES_PREFIX = "unisono_"


class RunCollector(Collector):
    """Reads what is new in each run at every scrape."""

    def __init__(self, runs: Sequence[Path]) -> None:
        self._followers = {str(run): Follower(run) for run in runs}
        self._lock = threading.Lock()

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """Return all series of all runs, each with the label `run`."""
        with self._lock:  # two scrapers may come at once
            found = [
                (run, series)
                for run, follower in self._followers.items()
                for series in _look(follower)
            ]
        return _families(found)


def serve_metrics(runs: Sequence[Path], host: str, port: int) -> int:
    """Answer scrapes from a thread until the process ends; return the port."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(RunCollector(runs))
    try:
        server, _ = start_http_server(port, addr=host, registry=registry)
    except OSError as error:
        raise RunError(
            f"cannot listen for scrapes: {error.strerror}",
            where=f"{host}:{port}",
            fix="choose another one with --port, or 0 for any that is free",
        ) from error
    return int(server.server_port)


def _look(follower: Follower) -> list[RunSeries]:
    view = follower.look()
    return series_of(view, now_of(view, time.time()))


def _families(found: Sequence[tuple[str, RunSeries]]) -> Iterable[GaugeMetricFamily]:
    names = dict.fromkeys(series.name for _, series in found)
    for name in names:
        same = [(run, series) for run, series in found if series.name == name]
        labels = ["run", *same[0][1].labels]
        family = GaugeMetricFamily(SERIES_PREFIX + name, HELP[name], labels=labels)
        for run, series in same:
            family.add_metric([run, *series.labels.values()], series.value)
        yield family
