import weakref

import pytest
import torch

from unisono.comm import ddp
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


class Event:
    """As much of a GPU's event as is asked: the seconds at which it was recorded."""

    now = 0.0

    def __init__(self):
        Event.now += 2.0
        self.at = Event.now

    def synchronize(self):
        pass

    def elapsed_time(self, later):
        return 1000 * (later.at - self.at)


def test_on_a_gpu_the_exchange_is_what_the_device_does_after_its_last_gradient(monkeypatch):
    monkeypatch.setattr(ddp, "_event_now", Event)
    sender = ddp._Sender(ddp.sum_bucket, on_gpu=True)
    sender.note_ready()
    sender.note_ready()
    assert sender.exposed() == 2.0
