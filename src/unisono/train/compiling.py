"""torch.compile for the layers of a model in training.

torch compiles layer by layer, because all layers of a kind share one program. The program
accepts any sentence length: one for each would take hours. Scoring and translating are not
compiled.
"""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch

from unisono.errors import ConfigError
from unisono.models.transformer import TransformerModel


@dataclass(frozen=True)
class Compiling:
    """Whether to compile the layers."""

    wanted: bool = False

    def prepare(self, model: TransformerModel) -> None:
        """Let torch compile each layer of `model` at its first use."""
        for layer in (*model.encoder, *model.decoder) if self.wanted else ():
            layer.compile(dynamic=True)

    def paused(self) -> AbstractContextManager[object]:
        """Return a block in which torch neither compiles nor runs compiled code."""
        return torch.compiler.set_stance("force_eager") if self.wanted else nullcontext()


def check_compiler(compiling: Compiling, device: str) -> None:
    """Raise a ConfigError if torch cannot compile for this device, as without a compiler."""
    if not compiling.wanted:
        return
    numbers = torch.ones(8, device=device)
    try:
        torch.compile(_probe)(numbers)
    except (RuntimeError, OSError) as error:
        raise ConfigError(
            f"torch {torch.__version__} cannot compile for {device}: "
            f"{str(error).strip().splitlines()[0]}",
            where="[train] compile",
            fix="install a C++ compiler (g++; Triton for GPUs), or set `compile = false`",
        ) from error


def _probe(numbers: torch.Tensor) -> torch.Tensor:
    return numbers.sin() + 1
