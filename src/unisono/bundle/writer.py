"""Write a bundle."""

import shutil
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import save_file

from unisono import __version__, atomic
from unisono.bundle.format import (
    DESCRIPTION,
    MANIFEST,
    WEIGHTS,
    Description,
    as_json,
    manifest_of,
)
from unisono.errors import DataError
from unisono.models.transformer import TransformerModel
from unisono.text.normalise import Normalisation
from unisono.text.tokenizer import Tokenizers
from unisono.translate.settings import Decoding


def write_bundle(
    path: Path,
    *,
    model: TransformerModel,
    tokenizers: Tokenizers,
    normalisation: Normalisation,
    source_language: str,
    target_language: str,
    decoding: Decoding,
    max_pieces: int,
    step: int,
    scores: Mapping[str, float],
    bleu_signature: str = "",
) -> Description:
    """Write the bundle of `model` to `path`; replace a bundle that is there.

    `max_pieces` is the longest line the model was trained on. If the process is killed, `path`
    is unchanged, or it is gone and both versions are next to it, complete, as `.new` and
    `.old`.
    """
    _check_replaceable(path)
    description = Description(
        created_with=f"unisono {__version__}",
        model=model.settings,
        vocabulary=model.vocabulary,
        source_vocabulary=model.source_vocabulary,
        tokenizer=tokenizers.kind,
        tags=list(tokenizers.source.tags),
        plain_quotes=normalisation.plain_quotes,
        lowercase=normalisation.lowercase,
        max_pieces=max_pieces,
        source_language=source_language,
        target_language=target_language,
        decoding=decoding,
        step=step,
        scores=dict(scores),
        bleu_signature=bleu_signature,
    )
    new = path.with_name(f"{path.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    with atomic.new_directory(new) as directory:
        _fill(directory, description, model, tokenizers)
    _put_in_place(new, path)
    return description


def _fill(
    directory: Path, description: Description, model: TransformerModel, tokenizers: Tokenizers
) -> None:
    weights = {
        name: weight.detach().to("cpu", torch.float32).contiguous()
        for name, weight in model.state_dict().items()
    }
    save_file(weights, directory / WEIGHTS)
    for name, content in tokenizers.files.items():
        atomic.write_bytes(directory / name, content)
    atomic.write_bytes(directory / DESCRIPTION, as_json(description))
    atomic.write_bytes(directory / MANIFEST, as_json(manifest_of(directory)))


def _put_in_place(new: Path, path: Path) -> None:
    old = path.with_name(f"{path.name}.old")
    if path.exists():
        shutil.rmtree(old, ignore_errors=True)
        path.rename(old)
    new.rename(path)
    atomic.sync(path.parent)
    shutil.rmtree(old, ignore_errors=True)


def _check_replaceable(path: Path) -> None:
    if not path.exists() or (path / DESCRIPTION).is_file():
        return
    if not path.is_dir() or any(path.iterdir()):
        raise DataError(
            "something other than a bundle is in the way",
            where=str(path),
            fix="choose another place, or move it away yourself",
        )
