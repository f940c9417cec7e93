"""torch.compile, for the layers of a model while it trains.

Layer by layer, because all layers of a kind are one program, which is compiled once. The
lengths of sentences are left open: a program for each would take hours. Scoring and
translating are not compiled.
"""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch

from unisono.errors import ConfigError
from unisono.models.transformer import TransformerModel


@dataclass(frozen=True)
class Compiling:
    """Whether the layers are compiled."""

    wanted: bool = False

    def prepare(self, model: TransformerModel) -> None:
        """Let torch compile the layers of `model` when they are first used."""
        for layer in (*model.encoder, *model.decoder) if self.wanted else ():
            layer.compile(dynamic=True)

    def paused(self) -> AbstractContextManager[object]:
        """Return the block in which nothing is compiled, nor runs compiled."""
        return torch.compiler.set_stance("force_eager") if self.wanted else nullcontext()


def check_compiler(compiling: Compiling, device: str) -> None:
    """Raise a ConfigError if torch cannot compile for this device, as without a compiler."""
    if not compiling.wanted:
        return
    numbers = torch.ones(8, device=device)
    try:
        torch.compile(_something)(numbers)
    except (RuntimeError, OSError) as error:
        raise ConfigError(
            f"torch {torch.__version__} cannot compile for {device}: "
            f"{str(error).strip().splitlines()[0]}",
            where="[train] compile",
            fix="install a C++ compiler (g++; Triton for GPUs), or set `compile = false`",
        ) from error


def _something(numbers: torch.Tensor) -> torch.Tensor:
    return numbers.sin() + 1
