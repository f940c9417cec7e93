"""Counters for `/metrics`, as Prometheus reads them. No text and no key is in them."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

CONTENT_TYPE = CONTENT_TYPE_LATEST
_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.15, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
_SENTENCES = (1, 2, 4, 8, 16, 24, 32, 48, 64)


class ServeMetrics:
    """What one server has done so far."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        into = self.registry
        self.requests = Counter(
            "unisono_requests",
            "Requests by path and status.",
            ("path", "status"),
            registry=into,
        )
        self.seconds = Histogram(
            "unisono_request_seconds",
            "From the first byte of a request to its answer.",
            ("path",),
            buckets=_SECONDS,
            registry=into,
        )
        self.batch_sentences = Histogram(
            "unisono_batch_sentences",
            "Sentences that a worker had under way when it got some of them.",
            buckets=_SENTENCES,
            registry=into,
        )
        self.characters = Counter(
            "unisono_characters", "Characters to translate.", registry=into
        )
        self.abandoned = Counter(
            "unisono_abandoned_requests", "Requests whose client went away.", registry=into
        )
        self.replaced = Counter(
            "unisono_models_replaced", "Times that new models took over.", registry=into
        )
        self.lost_workers = Counter("unisono_workers_lost", "Workers that died.", registry=into)
        self.waiting = Gauge(
            "unisono_waiting_sentences", "Sentences that wait for a worker.", registry=into
        )

    def page(self) -> bytes:
        """Return all of it as text."""
        return generate_latest(self.registry)
