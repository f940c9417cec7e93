"""What must be the same on all processes of a run."""

import tomllib
from collections.abc import Iterator
from importlib.metadata import version

import torch

from unisono.comm.collectives import check_same
from unisono.comm.protocol import Comm
from unisono.config.settings import Settings
from unisono.config.write import to_toml
from unisono.corpus.reader import Corpus


def same_everywhere(comm: Comm, settings: Settings, corpus: Corpus) -> None:
    """Raise an error if processes have other versions, settings or text than the leader."""
    facts = {
        "the version of unisono": version("unisono"),
        "the version of torch": str(torch.__version__),
        **{f"the setting {name}": value for name, value in _spelt_out(settings)},
        "the corpus": corpus.fingerprint[:16],
    }
    check_same(comm, facts)


def _spelt_out(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield every setting with its value, as the run's config.toml has them."""
    tables = tomllib.loads(to_toml(settings))
    for name, value in tables.items():
        if isinstance(value, dict):
            yield from ((f"{name}.{key}", repr(inner)) for key, inner in value.items())
        else:
            yield name, repr(value)
