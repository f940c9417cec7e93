import weakref

import pytest
import torch

from unisono.comm.ddp import Ddp
from unisono.stopwatch import Stopwatch


def attach_use_and_drop(comm):
    model = torch.nn.Linear(3, 2)
    replica = Ddp().attach(model, comm)
    watch = Stopwatch()
    batch = torch.ones(4, 3)
    replica.gradients([batch, batch], lambda net, x: net(x).sum(), watch)
    gradient = model.bias.grad.tolist()
    _, parts = watch.lap()
    gone = weakref.ref(replica._wrapped)
    del replica, model
    return gradient, sorted(parts), min(parts.values()) >= 0, gone() is None


@pytest.mark.ranks
def test_gradients_are_summed_timed_and_nothing_is_kept(ranks):
    # Kept alive by a cycle through its hook, DDP would outlive the process group, and one
    # launch in eight ended with an abort after its last step.
    for gradient, parts, sane, freed in ranks.run(attach_use_and_drop):
        assert gradient == [8.0 * ranks.size] * 2
        assert parts == ["backward", "exchange", "forward", "hidden"]
        assert sane
        assert freed
