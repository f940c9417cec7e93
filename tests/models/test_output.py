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


def plain(states, matrix, words, smoothing, vocabulary=11):
    return F.cross_entropy(
        states @ matrix[:vocabulary].T,
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


# The loss of GPUs runs on any device.
@pytest.mark.parametrize("chunk", [1, 25, 10**6])
@pytest.mark.parametrize(("vocabulary", "smoothing"), [(11, 0.0), (11, 0.1), (16, 0.1)])
def test_the_loss_of_gpus_is_that_of_the_whole(monkeypatch, chunk, vocabulary, smoothing):
    monkeypatch.setattr(output, "GPU_CHUNK_LOGITS", chunk)
    results = []
    for chunked in (True, False):
        states, matrix, words = (tensor.detach() for tensor in problem())
        states, matrix = states.float().requires_grad_(), matrix.float().requires_grad_()
        if chunked:
            loss = Output(matrix, vocabulary)._gpu_loss_sum(states, words, smoothing, ignore=0)
        else:
            loss = plain(states, matrix, words, smoothing, vocabulary)
        (loss * 0.3).backward()
        results.append((loss.detach(), states.grad, matrix.grad))
    torch.testing.assert_close(results[0], results[1], rtol=1e-5, atol=1e-5)


def test_the_loss_of_gpus_multiplies_in_half_precision_and_sums_in_float32(monkeypatch):
    monkeypatch.setattr(output, "GPU_CHUNK_LOGITS", 25)
    states, matrix, words = (tensor.detach().float() for tensor in problem())
    states, matrix, words = states.requires_grad_(), matrix.requires_grad_(), words.long()
    with torch.autocast("cpu", torch.bfloat16):
        loss = Output(matrix, 11)._gpu_loss_sum(states, words, 0.1, ignore=0)
    exact = plain(states, matrix, words, 0.1)
    near = torch.autograd.grad(loss, (states, matrix))
    for mine, theirs in zip(near, torch.autograd.grad(exact, (states, matrix)), strict=True):
        assert mine.dtype == torch.float32
        assert not torch.equal(mine, theirs)
        torch.testing.assert_close(mine, theirs, rtol=0.05, atol=0.02)
    assert loss.item() == pytest.approx(exact.item(), rel=0.01)


def test_padding_alone_gives_the_loss_of_gpus_zero_and_zero_gradients():
    states, matrix, words = problem(words=(0, 0))
    loss = Output(matrix, 11)._gpu_loss_sum(states, words, 0.1, ignore=0)
    assert loss.item() == 0.0
    assert not any(g.any() for g in torch.autograd.grad(loss, (states, matrix)))


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
