"""Opening a bundle: trusted only after every file has been checked."""

from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file

from unisono.bundle.format import (
    DESCRIPTION,
    PIECES,
    WEIGHTS,
    Description,
    damaged,
    read,
    verify,
)
from unisono.errors import ConfigError
from unisono.models.size import parameter_count
from unisono.models.transformer import TransformerModel, load_model, weight_shapes
from unisono.text.load import load_tokenizer
from unisono.text.tokenizer import Tokenizer
from unisono.translate.settings import Decoding
from unisono.translate.translator import Translator


@dataclass(frozen=True, eq=False)
class Bundle:
    """A bundle that has been checked. Its weights are read when they are asked for."""

    path: Path
    description: Description
    tokenizer: Tokenizer

    def model(self, device: torch.device | str = "cpu") -> TransformerModel:
        """Return the model on `device`, ready to translate."""
        weights = load_file(self.path / WEIGHTS, device=str(device))
        described = self.description
        return load_model(described.model, described.vocabulary, weights).train(False)

    def translator(
        self, device: torch.device | str = "cpu", decoding: Decoding | None = None
    ) -> Translator:
        """Return what translates lines, by default as the bundle advises."""
        return Translator(
            self.model(device),
            self.tokenizer,
            decoding or self.description.decoding,
            max_pieces=self.description.max_pieces,
        )


def open_bundle(path: Path) -> Bundle:
    """Check the bundle at `path` and return it.

    Sizes and hashes, then names, shapes and types of the weights against what the settings
    imply: whatever is wrong is an error before anything is loaded.
    """
    verify(path)
    description = read(path / DESCRIPTION, Description)
    _check_weights(path / WEIGHTS, description)
    tokenizer = load_tokenizer(description.tokenizer, path / PIECES)
    if tokenizer.size != description.vocabulary:
        raise damaged(
            path / PIECES,
            f"it has {tokenizer.size} pieces, the model {description.vocabulary}",
        )
    return Bundle(path, description, tokenizer)


def _check_weights(path: Path, description: Description) -> None:
    settings, vocabulary = description.model, description.vocabulary
    # Before shapes are worked out: absurd settings would take forever over it.
    needed = 4 * parameter_count(settings, vocabulary)
    if needed > path.stat().st_size:
        raise damaged(path, f"it is smaller than the {needed} bytes its settings imply")
    try:
        shapes = weight_shapes(settings, vocabulary)
        found = _shapes(path)
    except (ConfigError, SafetensorError) as error:
        raise damaged(path, str(error)) from error
    expected = {name: f"F32 {shape}" for name, shape in shapes.items()}
    for name in sorted(set(expected) | set(found)):
        wanted, there = expected.get(name, "nothing"), found.get(name, "nothing")
        if wanted != there:
            raise damaged(path, f"`{name}` is {there} where the settings imply {wanted}")


def _shapes(path: Path) -> dict[str, str]:
    with safe_open(path, framework="pt") as file:
        slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
        return {
            name: f"{part.get_dtype()} {tuple(part.get_shape())}"
            for name, part in slices.items()
        }
