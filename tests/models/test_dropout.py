"""Our dropout against what dropout promises."""

import pytest
import torch

from models.sample import small_model, words
from unisono.models.dropout import Dropout, WordDropout
from unisono.models.positions import sinusoids
from unisono.train.process_setup import set_randomness


@pytest.mark.parametrize("share", [0.1, 0.5, 0.999999])
def test_the_share_is_dropped_and_the_rest_scaled_so_that_the_mean_stays(share):
    torch.manual_seed(1)
    dropped = Dropout(share).train()(torch.ones(1000, 1000))
    assert (dropped == 0).float().mean().item() == pytest.approx(share, abs=0.002)
    if share < 0.9:
        assert dropped.mean().item() == pytest.approx(1.0, abs=0.005)
    assert len(dropped.unique()) == 2


def test_elements_are_dropped_independently():
    torch.manual_seed(1)
    kept = Dropout(0.3).train()(torch.ones(200_000)).bool().float()
    for distance in (1, 2, 3, 4, 8):
        both = (kept[:-distance] * kept[distance:]).mean().item()
        assert both == pytest.approx(0.49, abs=0.01)


def test_gradients_flow_where_values_did():
    x = torch.ones(7, 3, requires_grad=True)
    y = Dropout(0.5).train()(x)
    y.sum().backward()
    torch.testing.assert_close(x.grad, y.detach())


def test_the_same_seed_drops_the_same():
    results = []
    for seed in (5, 5, 6):
        torch.manual_seed(seed)
        results.append(Dropout(0.5).train()(torch.ones(100)))
    assert torch.equal(results[0], results[1])
    assert not torch.equal(results[0], results[2])


@pytest.mark.parametrize("layer", [Dropout(0.5).eval(), Dropout(0.0).train()])
def test_without_training_or_share_nothing_happens(layer):
    x = torch.randn(5)
    assert layer(x) is x


def test_words_are_dropped_whole_and_the_rest_scaled():
    torch.manual_seed(1)
    dropped = WordDropout(0.25).train()(torch.ones(300, 400, 6))
    assert torch.equal(dropped, dropped[..., :1].expand_as(dropped))
    assert (dropped[..., 0] == 0).float().mean().item() == pytest.approx(0.25, abs=0.005)
    torch.testing.assert_close(dropped.unique(), torch.tensor([0.0, 4 / 3]))


@pytest.mark.parametrize("side", ["source", "target"])
def test_of_a_dropped_word_its_position_alone_remains(side):
    model = small_model(word_dropout=0.5, tied_embeddings=False).train()
    torch.manual_seed(1)
    embedded = model._embed(side, words(3, 8), start=0)
    gone = (embedded == sinusoids(8, 16)).all(2)
    assert 0 < gone.sum() < gone.numel()
    embedded.sum().backward()
    met = set(model.embeddings[side].grad.abs().sum(1).nonzero().flatten().tolist())
    assert met == set(words(3, 8)[~gone].tolist())


def test_dropped_words_follow_from_the_seed_of_the_micro_batch_and_nothing_before():
    model = small_model(word_dropout=0.3, dropout=0.1).train()
    first, second = (words(4, 6, seed=1), words(4, 5, seed=2)), (words(3, 9), words(3, 7))
    batches = {0: first, 1: second}
    results = []
    for order in ((0, 1), (1, 0), (1,)):
        losses = {}
        for number in order:
            set_randomness(1, 0, 17, number)
            losses[number] = model(*batches[number]).sum()
        results.append(losses)
    assert torch.equal(results[0][0], results[1][0])
    assert torch.equal(results[0][1], results[1][1])
    assert torch.equal(results[0][1], results[2][1])
    set_randomness(1, 0, 18, 1)
    assert not torch.equal(model(*second).sum(), results[0][1])


def test_word_dropout_that_is_off_draws_no_number():
    torch.manual_seed(4)
    before = torch.get_rng_state()
    WordDropout(0.0).train()(torch.ones(3, 4, 5))
    WordDropout(0.5).eval()(torch.ones(3, 4, 5))
    assert torch.equal(torch.get_rng_state(), before)
