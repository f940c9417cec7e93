"""Open a bundle, after checking every file of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file

from unisono.bundle.format import (
    DESCRIPTION,
    WEIGHTS,
    Description,
    damaged,
    read_json,
    verify_bundle,
)
from unisono.errors import ConfigError, DataError
from unisono.models.cpu_bf16 import multiplies_in_bf16
from unisono.models.settings import parameter_count
from unisono.models.transformer import TransformerModel, load_model, weight_shapes
from unisono.text.load import load_tokenizers
from unisono.text.normalise import Normalisation
from unisono.text.tokenizer import Tokenizers, pieces_files
from unisono.translate.settings import Decoding
from unisono.translate.translator import Translator


@dataclass(frozen=True, eq=False)
class Bundle:
    """A checked bundle. Its weights are read on demand."""

    path: Path
    description: Description
    tokenizers: Tokenizers

    def model(self, device: torch.device | str = "cpu") -> TransformerModel:
        """Return the model on `device`, ready to translate."""
        weights = load_file(self.path / WEIGHTS, device=str(device))
        about = self.description
        model = load_model(about.model, about.vocabulary, weights, about.source_vocabulary)
        return model.train(False)

    def translator(
        self, device: torch.device | str = "cpu", decoding: Decoding | None = None
    ) -> Translator:
        """Return the translator of this bundle, by default with its decoding settings."""
        return ensemble([self], device, decoding)


def ensemble(
    bundles: Sequence[Bundle],
    device: torch.device | str = "cpu",
    decoding: Decoding | None = None,
    precision: Literal["auto", "fp32", "bf16"] = "fp32",
) -> Translator:
    """Return a translator that combines all models, by default with the first one's settings.

    Bundles that do not go together raise an error before any weights are read. The longest
    line is that of the model trained for the shortest lines. The models multiply in bf16 if
    `precision` says so, or with "auto" if that pays for each of them.
    """
    first = bundles[0]
    for other in bundles[1:]:
        _check_together(first, other)
    about = first.description
    sizes = [
        (bundle.description.model.width, bundle.description.model.inner) for bundle in bundles
    ]
    in_half = all(multiplies_in_bf16(precision, str(device), *size) for size in sizes)
    models = [bundle.model(device) for bundle in bundles]
    if in_half:
        for model in models:
            model.pack()
    return Translator(
        models,
        first.tokenizers,
        decoding or about.decoding,
        normalisation=Normalisation(about.plain_quotes, about.lowercase),
        max_pieces=min(bundle.description.max_pieces for bundle in bundles),
        language=about.source_language,
    )


def open_bundle(path: Path) -> Bundle:
    """Check the bundle at `path` and return it.

    Check sizes and hashes, then the names, shapes and types of the weights against the
    settings, before anything is loaded.
    """
    verify_bundle(path)
    description = read_json(path / DESCRIPTION, Description)
    _check_weights(path / WEIGHTS, description)
    return Bundle(path, description, _tokenizers(path, description))


def _check_together(first: Bundle, other: Bundle) -> None:
    """Raise an error unless both have the same pieces of the same languages."""
    ours, theirs = _input_and_output(first), _input_and_output(other)
    for what in ours:
        if ours[what] != theirs[what]:
            raise DataError(
                f"{first.path} and {other.path} cannot translate together: they have "
                f"different {what}",
                where="--model",
                fix="name models that were trained on the same corpus, or on corpora with the "
                "same `pieces_model`",
            )


def _input_and_output(bundle: Bundle) -> dict[str, object]:
    about, sides = bundle.description, bundle.tokenizers
    return {
        "languages": (about.source_language, about.target_language),
        "kinds of tokenizers": about.tokenizer,
        "target pieces": sides.target.model,
        "source pieces": sides.source.model,
        "tags": about.tags,
        "normalisation (`plain_quotes`, `lowercase`)": (about.plain_quotes, about.lowercase),
    }


def _tokenizers(path: Path, about: Description) -> Tokenizers:
    # Check first: a bundle with separate vocabularies has other files.
    for name in pieces_files(joint=about.joint):
        if not (path / name).is_file():
            raise damaged(path / name, "it is missing")
    tokenizers = load_tokenizers(about.tokenizer, path, joint=about.joint, tags=about.tags)
    sides = (tokenizers.source, tokenizers.target)
    rows = (about.source_vocabulary or about.vocabulary, about.vocabulary)
    for name, side, words in zip(pieces_files(joint=about.joint), sides, rows, strict=True):
        if side.size != words:
            raise damaged(path / name, f"it has {side.size} pieces, the model {words}")
    return tokenizers


def _check_weights(path: Path, description: Description) -> None:
    sizes = description.model, description.vocabulary, description.source_vocabulary
    # Check first: with absurd settings the shapes would take forever to compute.
    needed = 4 * parameter_count(*sizes)
    if needed > path.stat().st_size:
        raise damaged(path, f"it is smaller than the {needed} bytes its settings imply")
    try:
        shapes = weight_shapes(*sizes)
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
