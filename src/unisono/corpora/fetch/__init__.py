"""Bring files here: mirrors in order, resumed when broken, checked before they get a name."""

from unisono.corpora.fetch.file import fetch, missing, require
from unisono.corpora.fetch.local import check_given, not_here
from unisono.corpora.fetch.patience import Patience
from unisono.corpora.fetch.remote import Fetched, Received, Remote

__all__ = [
    "Fetched",
    "Patience",
    "Received",
    "Remote",
    "check_given",
    "fetch",
    "missing",
    "not_here",
    "require",
]
