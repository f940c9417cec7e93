"""What fairseq 0.12.2 needs to run on a Python, numpy and torch of today. Import it first."""

import dataclasses
from typing import Any

import numpy
import torch

plain_process = dataclasses._process_class
plain_load = torch.load


def process_hashable(cls: Any, *args: Any, **kwargs: Any) -> Any:
    """Make the data class, and let its instances be hashed by identity.

    Python 3.11 takes an instance that has no hash for a mutable default, and refuses it as
    the default of a field. The configurations of fairseq and hydra are full of those.
    """
    made = plain_process(cls, *args, **kwargs)
    if made.__hash__ is None:
        made.__hash__ = object.__hash__
    return made


def load_all(*args: Any, **kwargs: Any) -> Any:
    """Load a checkpoint that holds more than tensors: one that the benchmark itself made."""
    kwargs.setdefault("weights_only", False)
    return plain_load(*args, **kwargs)


dataclasses._process_class = process_hashable
torch.load = load_all
for name, kind in (("int", int), ("float", float), ("bool", bool), ("object", object)):
    if name not in vars(numpy):
        setattr(numpy, name, kind)
