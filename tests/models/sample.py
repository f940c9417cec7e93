"""Small but real models and words for tests."""

import msgspec
import torch

from unisono.models.settings import TransformerSettings
from unisono.models.transformer import TransformerModel, build_model
from unisono.text.tokenizer import END_ID

# On a busy machine threads that wait for each other make such small work far slower.
torch.set_num_threads(1)

SETTINGS = TransformerSettings(
    width=16,
    heads=2,
    inner=32,
    encoder_layers=2,
    decoder_layers=2,
    dropout=0.0,
    attention_dropout=0.0,
    activation_dropout=0.0,
)
VOCABULARY = 21


def small_model(**choices: object) -> TransformerModel:
    torch.manual_seed(7)
    return build_model(msgspec.structs.replace(SETTINGS, **choices), VOCABULARY).eval()


def words(*shape: int, seed: int = 3) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(4, VOCABULARY, shape, generator=generator)


def padded(rows: torch.Tensor, count: int) -> torch.Tensor:
    return torch.nn.functional.pad(rows, (0, count))


def tiny_model(vocabulary: int = 6, seed: int = 0) -> TransformerModel:
    torch.manual_seed(seed)
    model = build_model(SETTINGS, vocabulary).eval()
    with torch.no_grad():  # sharper than a fresh model, so that there is something to find
        model.embeddings["shared"].mul_(2.5)
    return model


def ended(rows: torch.Tensor) -> torch.Tensor:
    """Return rows of source words with their end."""
    return torch.cat([rows, torch.full((rows.size(0), 1), END_ID)], dim=1)
