import weakref

import pytest
import torch

from unisono.comm.strategies import ddp
from unisono.comm.strategies.ddp import Ddp
from unisono.stopwatch import Stopwatch


def attach_use_and_drop(comm):
    model = torch.nn.Linear(3, 2)
    replica = Ddp().attach(model, comm)
    stopwatch = Stopwatch()
    batch = torch.ones(4, 3)
    replica.gradients([batch, batch], lambda net, x: net(x).sum(), stopwatch)
    gradient = model.bias.grad.tolist()
    _, parts = stopwatch.lap()
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

    def elapsed_time(self, later):
        return 1000 * (later.at - self.at)


class Clocked(Event):
    """An event that is recorded at the time that was set."""

    def __init__(self):
        self.at = Event.now


class Bucket:
    """What is sent; only its number is looked at."""

    def __init__(self, number):
        self.number = number


def test_on_a_gpu_what_the_backward_pass_hides_is_told_by_the_devices_events(monkeypatch):
    # Ready and summed, on the device's clock: the second waits for the first on the wire.
    course = {1: (10.0, 13.0), 2: (12.0, 15.0), 3: (14.0, 18.0)}
    monkeypatch.setattr(ddp, "event_now", Clocked)
    monkeypatch.setattr(Event, "now", 0.0)

    def send(bucket):
        # NCCL's future comes at once; what follows it waits on the device.
        Event.now = course[bucket.number][1]
        return ddp.completed(torch.zeros(1))

    sender = ddp._Sender(send, on_gpu=True)
    for number, (ready, _) in course.items():
        Event.now = ready
        ddp._send_bucket(sender, Bucket(number)).wait()
    Event.now = 18.0
    found = dict(ddp._exposed_and_hidden(sender.last_event, Clocked(), sender.events_under_way))
    assert found["exchange"] == -found["backward"] == 4.0
    assert found["hidden"] == 4.0  # from 10 to 14, each moment once
    sender.forget()
    assert sender.last_event is None
    assert not sender.events_under_way


def test_on_a_gpu_the_exchange_is_what_the_device_does_after_its_last_gradient(monkeypatch):
    monkeypatch.setattr(ddp, "event_now", Event)
    sender = ddp._Sender(ddp.sum_bucket, on_gpu=True)
    sender.note_ready()
    sender.note_ready()
    assert dict(ddp._exposed_and_hidden(sender.last_event, Event(), [])) == {
        "exchange": 2.0,
        "backward": -2.0,
    }
