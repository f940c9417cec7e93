"""torch's optimizers without its compiler, which they would load at their first use.

torch calls some of their methods through decorators that first import `torch._dynamo`, only to
say that these methods are not to be compiled. That takes as long as importing torch itself, and
175 MB in every process. The decorators remember their answer as an attribute of the function;
here it is given in advance. A torch without that attribute, or a process that has the compiler
already, works as before.
"""

import inspect
import sys
from collections.abc import Callable
from typing import Any, TypeVar, cast

import torch

Kind = TypeVar("Kind", bound=torch.optim.Optimizer)


def lean(kind: type[Kind]) -> type[Kind]:
    """Return the optimizer `kind`, the same but for loading the compiler."""
    if "torch._dynamo" in sys.modules:
        return kind
    base = torch.optim.Optimizer
    for method in (base.add_param_group, base.zero_grad, base.state_dict, base.load_state_dict):
        _answer_for(method)
    # torch wraps `step` to switch gradients off, and to tell the compiler to stop there.
    step = torch.no_grad()(inspect.unwrap(kind.step))
    return cast("type[Kind]", type(kind.__name__, (kind,), {"step": step}))


def _answer_for(method: Callable[..., Any]) -> None:
    plain = inspect.unwrap(method)
    if plain is not method and not hasattr(plain, "__dynamo_disable"):
        setattr(plain, "__dynamo_disable", plain)
