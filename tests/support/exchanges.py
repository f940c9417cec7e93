"""A small model whose gradients are exchanged, each process with batches of its own."""

import torch
from torch import nn

from unisono.stopwatch import Stopwatch

SMALL_BUCKETS = 0.002


def new_model():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(20, 30), nn.Linear(30, 11), nn.Linear(11, 2))


def batch_of(rank, step):
    return torch.randn(8, 20, generator=torch.Generator().manual_seed(100 * step + rank))


def loss_of(model, batch):
    return model(batch).square().sum()


def exact_gradients(model, size, step):
    """Return the sum over all ranks, made by one process."""
    twin = new_model()
    twin.load_state_dict(model.state_dict())
    for rank in range(size):
        loss_of(twin, batch_of(rank, step)).backward()
    return torch.cat([weight.grad.flatten() for weight in twin.parameters()])


def exchange(replica, rank, step, moved=True, scale=1.0, spoil=None):
    """Return the gradient after one exchange, which is then settled."""
    model, stopwatch = replica.module, Stopwatch()
    model.zero_grad()
    replica.memory.begin(step, scale)
    batch = batch_of(rank, step)
    if spoil is not None:
        batch[0, 0] = spoil
    replica.gradients([batch], lambda m, x: loss_of(m, x) * scale, stopwatch)
    replica.memory.settle(step, stopwatch, moved=moved)
    return torch.cat([weight.grad.flatten() for weight in model.parameters()])


def residual_of(replica):
    own = replica.memory.state().own
    names = [name for name, _ in replica.module.named_parameters()]
    return torch.cat([own[f"{name}/gradient_left_over"].flatten() for name in names])
