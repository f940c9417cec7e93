"""Our dropout against what dropout promises."""

import pytest
import torch

from unisono.models.dropout import Dropout


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
