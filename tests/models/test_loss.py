"""Losses are sums: of words, of sentences, of pieces."""

import msgspec
import pytest
import torch
from torch.nn import functional as F

from models.sample import SETTINGS, VOCABULARY, padded, small_model, words
from unisono.models.output import loss_sums, token_losses
from unisono.models.transformer import build_model


def batch():
    """Return four sentences of different lengths: source, target_in, target_out."""
    source, target = words(4, 6), words(4, 8, seed=4)
    target_in, target_out = target[:, :-1].clone(), target[:, 1:].clone()
    for row, length in enumerate([7, 5, 2, 4]):
        target_in[row, length:] = 0
        target_out[row, length:] = 0
        source[row, length:] = 0
    return source, target_in, target_out


def gradients(model, *pieces, smoothing=0.1):
    model.zero_grad()
    total = 0.0
    for piece in pieces:
        loss = loss_sums(model, *piece, smoothing)
        loss.backward()
        total += loss.item()
    return total, {name: weight.grad.clone() for name, weight in model.named_parameters()}


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_is_the_sum_written_out(smoothing):
    model, (source, target_in, target_out) = small_model(), batch()
    logs = model(source, target_in).log_softmax(-1)
    expected = 0.0
    for row, column in (target_out != 0).nonzero().tolist():
        here = logs[row, column]
        expected -= (1 - smoothing) * here[target_out[row, column]].item()
        expected -= smoothing * here.mean().item()
    loss = loss_sums(model, source, target_in, target_out, smoothing)
    assert loss.shape == ()
    assert loss.item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_a_batch_is_the_sum_of_its_pieces(norm):
    model, whole = small_model(norm=norm), batch()
    parts = [tuple(side[rows] for side in whole) for rows in ([0, 2], [1], [3])]
    loss, gradient = gradients(model, whole)
    sum_of_losses, sum_of_gradients = gradients(model, *parts)
    assert sum_of_losses == pytest.approx(loss, rel=1e-5)
    torch.testing.assert_close(sum_of_gradients, gradient, rtol=1e-4, atol=1e-5)


def test_padding_changes_neither_loss_nor_gradient():
    model, whole = small_model(), batch()
    loss, gradient = gradients(model, whole)
    longer = tuple(padded(side, 3) for side in whole)
    padded_loss, padded_gradient = gradients(model, longer)
    assert padded_loss == pytest.approx(loss, rel=1e-5)
    torch.testing.assert_close(padded_gradient, gradient, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("source", [words(2, 3), torch.zeros(2, 3, dtype=torch.long)])
@pytest.mark.parametrize("attention_dropout", [0.0, 0.1])
def test_a_batch_without_words_has_no_loss_and_zero_gradients(source, attention_dropout):
    nothing = torch.zeros(2, 4, dtype=torch.long)
    model = small_model(attention_dropout=attention_dropout).train()
    loss, gradient = gradients(model, (source, nothing, nothing))
    assert loss == 0.0
    assert all(torch.equal(grad, torch.zeros_like(grad)) for grad in gradient.values())


def test_a_sentence_of_nothing_but_padding_harms_no_other():
    model, whole = small_model(), batch()
    with_nothing = tuple(F.pad(side, (0, 0, 0, 1)) for side in whole)
    loss, gradient = gradients(model, whole)
    same_loss, same_gradient = gradients(model, with_nothing)
    assert same_loss == pytest.approx(loss, rel=1e-5)
    torch.testing.assert_close(same_gradient, gradient, rtol=1e-4, atol=1e-5)


def test_losses_of_sentences_are_not_smoothed_and_add_up():
    model, (source, target_in, target_out) = small_model(), batch()
    losses = token_losses(model, source, target_in, target_out)
    assert losses.shape == (4,)
    assert not losses.requires_grad
    for row, loss in enumerate(losses):
        alone = loss_sums(
            model, source[row : row + 1], target_in[row : row + 1], target_out[row : row + 1], 0
        )
        torch.testing.assert_close(loss, alone.detach())


def test_losses_of_sentences_without_padding_add_up_too():
    model, source, target = small_model(), words(3, 5), words(3, 6, seed=4)
    losses = token_losses(model, source, target[:, :-1], target[:, 1:])
    whole = loss_sums(model, source, target[:, :-1], target[:, 1:], 0.0)
    torch.testing.assert_close(losses.sum(), whole.detach())


def test_rounding_the_vocabulary_up_changes_no_loss():
    """A model of 21 rows of the same weights, its logits written out, has the same loss."""
    model, (source, target_in, target_out) = small_model(), batch()
    before = loss_sums(model, source, target_in, target_out, 0.1)
    before.backward()
    gradient = model.embeddings["shared"].grad
    assert torch.equal(gradient[VOCABULARY:], torch.zeros(3, 16))
    with torch.no_grad():
        model.embeddings["shared"][VOCABULARY:] = 5.0
    after = loss_sums(model, source, target_in, target_out, 0.1)
    torch.testing.assert_close(after, before, rtol=0, atol=0)


def test_a_few_updates_lower_the_loss_in_both_orders_of_norms():
    for norm in ("pre", "post"):
        torch.manual_seed(1)
        model = build_model(msgspec.structs.replace(SETTINGS, norm=norm), VOCABULARY)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.003)
        losses = []
        for _ in range(4):
            optimizer.zero_grad()
            losses.append(loss_sums(model, *batch(), 0.1))
            losses[-1].backward()
            optimizer.step()
        assert losses[-1].item() < losses[0].item()
