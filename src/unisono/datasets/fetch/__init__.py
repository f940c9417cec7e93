"""Download files: mirrors in order, resumed after a break, verified before they get a name."""

from unisono.datasets.fetch.download import check_given, fetch, missing, not_here, require
from unisono.datasets.fetch.remote import Fetched, Received, Remote
from unisono.datasets.fetch.retry import RetryPolicy

__all__ = [
    "Fetched",
    "RetryPolicy",
    "Received",
    "Remote",
    "check_given",
    "fetch",
    "missing",
    "not_here",
    "require",
]
