"""Bundles of models that have learnt nothing, written by the real thing."""

import torch

from models.sample import SETTINGS
from unisono.bundle.reader import open_bundle
from unisono.bundle.writer import write_bundle
from unisono.models.transformer import build_model
from unisono.text.load import BytePieces
from unisono.text.normalise import Normalisation
from unisono.text.tokenizer import END_ID, Tokenizers
from unisono.translate.settings import Decoding


def made_bundle(path, tokenizers=None, pair=("en", "de"), seed=3, end_after=None, **changes):
    """Write the bundle of a model with random weights, sharp enough to have opinions.

    With learned positions, it ends its translations once they have `end_after` pieces.
    """
    torch.manual_seed(seed)
    tokenizers = tokenizers or Tokenizers(*[BytePieces()] * 2)
    settings = type(SETTINGS)(
        **{**{f: getattr(SETTINGS, f) for f in SETTINGS.__struct_fields__}, **changes}
    )
    source = 0 if tokenizers.joint else tokenizers.source.size
    model = build_model(settings, tokenizers.target.size, source).eval()
    with torch.no_grad():
        for matrix in model.embedding_weights:
            matrix.mul_(2.0)
        for weight in model.parameters():
            weight.add_(0.02 * torch.randn_like(weight))
        if end_after is not None:
            end = model.embedding_weights[-1][END_ID]
            model.positions.target[end_after:] = 20 * end
    write_bundle(
        path,
        model=model,
        tokenizers=tokenizers,
        normalisation=Normalisation(),
        source_language=pair[0],
        target_language=pair[1],
        decoding=Decoding(beam=3, max_ratio=1.0, max_extra=4),
        max_pieces=30,
        step=1,
        scores={},
    )
    return open_bundle(path)
