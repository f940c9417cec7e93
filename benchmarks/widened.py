"""A bundle of twice the width that translates exactly like the one it is made of.

    python benchmarks/widened.py BUNDLE WIDER

How fast a model translates depends on its size and on what it says: an untrained model says
nearly nothing or never ends. So that SMALL need not be trained for hours before its speed is
measured, each number of a trained model of half the width (norms first, tied embeddings,
sinusoids) is put there twice, and what reads both takes half of each.
"""

import argparse
import math
from dataclasses import dataclass
from pathlib import Path

import msgspec
import torch
from torch import Tensor

from unisono.bundle.reader import open_bundle
from unisono.bundle.writer import write_bundle
from unisono.models.positions import sinusoids
from unisono.models.transformer import load_model

POSITIONS = 1024


def main() -> None:
    """Read, widen, write."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("bundle", type=Path)
    parser.add_argument("wider", type=Path)
    given = parser.parse_args()
    bundle = open_bundle(given.bundle)
    translator, about = bundle.translator(), bundle.description
    [model] = translator.models
    old = model.settings
    settings = msgspec.structs.replace(
        old,
        width=2 * old.width,
        inner=2 * old.inner,
        positions="learned",  # the sinusoids of twice the width are others
        max_positions=POSITIONS,
    )
    table = twice(sinusoids(POSITIONS, old.width), 1)
    weights = Widening(old.heads).weights(model.state_dict())
    weights |= {f"positions.{side}": table.clone() for side in ("source", "target")}
    write_bundle(
        given.wider,
        model=load_model(settings, model.vocabulary, weights),
        tokenizers=translator.tokenizers,
        normalisation=translator.normalisation,
        source_language=about.source_language,
        target_language=about.target_language,
        decoding=about.decoding,
        max_pieces=about.max_pieces,
        step=about.step,
        scores=about.scores,
    )


def twice(values: Tensor, dimension: int) -> Tensor:
    """Return `values` beside themselves."""
    return torch.cat([values, values], dimension)


@dataclass(frozen=True)
class Widening:
    """Doubles the weights of a model with so many heads."""

    heads: int

    def weights(self, narrow: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return the weights of the wider model."""
        return {name: self._wide(name, weight.clone()) for name, weight in narrow.items()}

    def _wide(self, name: str, weight: Tensor) -> Tensor:
        half = math.sqrt(0.5)
        if name.startswith("embeddings."):
            return twice(weight, 1) * half  # the model multiplies by the root of its width
        if "norm" in name:
            # Embeddings are also the output: twice as many products, each times this.
            return twice(weight, 0) * (half if name.startswith("decoder_norm") else 1.0)
        parts = {"query_key_value": 3, "key_value": 2, "query": 1}.get(name.split(".")[-2])
        out = twice(weight, 0) if parts is None else self._by_heads(weight, parts, name, half)
        if weight.dim() == 1:
            return out
        if name.endswith("attention.output.weight"):
            by_head = out.unflatten(1, (self.heads, -1))
            return twice(by_head, 2).flatten(1) / 2
        return twice(out, 1) / 2

    def _by_heads(self, weight: Tensor, parts: int, name: str, half: float) -> Tensor:
        by_head = weight.unflatten(0, (parts, self.heads, -1))
        wide = twice(by_head, 2)
        if "query" in name:  # products of twice the length, divided by the root of it
            wide[0] *= half
        return wide.flatten(0, 2)


if __name__ == "__main__":
    main()
