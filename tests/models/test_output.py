"""Loss and gradients in chunks against torch's, all at once."""

import pytest
import torch
from torch.nn import functional as F

from unisono.models import output
from unisono.models.output import Output


def problem(words=(3, 0, 9, 0, 1, 3, 3)):
    generator = torch.Generator().manual_seed(1)
    states = torch.randn(len(words), 5, generator=generator, dtype=torch.float64)
    matrix = torch.randn(16, 5, generator=generator, dtype=torch.float64)
    return states.requires_grad_(), matrix.requires_grad_(), torch.tensor(words)


def plain(states, matrix, words, smoothing):
    return F.cross_entropy(
        states @ matrix[:11].T,
        words,
        ignore_index=0,
        reduction="sum",
        label_smoothing=smoothing,
    )


@pytest.mark.parametrize("chunk", [1, 25, 33, 10**6])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_chunks_of_any_size_give_loss_and_gradients_of_the_whole(monkeypatch, chunk, smoothing):
    monkeypatch.setattr(output, "CHUNK_LOGITS", chunk)
    results = []
    for chunked in (True, False):
        states, matrix, words = problem()
        if chunked:
            loss = Output(matrix, 11).loss_sum(states, words, smoothing, ignore=0)
        else:
            loss = plain(states, matrix, words, smoothing)
        (loss * 0.3).backward()
        results.append((loss.detach(), states.grad, matrix.grad))
    torch.testing.assert_close(results[0], results[1])


def test_without_gradients_the_loss_is_the_same():
    states, matrix, words = problem()
    loss = Output(matrix, 11).loss_sum(states, words, 0.1, ignore=0)
    with torch.no_grad():
        same = Output(matrix, 11).loss_sum(states, words, 0.1, ignore=0)
    torch.testing.assert_close(same, loss.detach())


def test_words_to_ignore_alone_give_zero_and_zero_gradients():
    states, matrix, words = problem(words=(0, 0))
    loss = Output(matrix, 11).loss_sum(states, words, 0.1, ignore=0)
    loss.backward()
    assert loss.item() == 0.0
    assert not states.grad.any()
    assert not matrix.grad.any()
