"""A stand-in for NCCL: every group has a stream of its own, and nothing is sent.

As in torch 2.13, a message waits for the stream that issues it, `Work.wait` lets the current
stream wait for the message, and drops the references to its tensors. The allocator is told
nothing (no `record_stream`).
"""

from types import SimpleNamespace
from unittest.mock import MagicMock

import stand_in_cuda
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore

from unisono.cost_model.step import USUAL_BUCKET_MB

MESSAGES = []  # what the groups were asked to do, in this order
_streams = {}
_dropped = []  # tensors of messages for which nobody waited: NCCL keeps them


class StandInWork:
    """A message under way."""

    def __init__(self, reads, writes, recorder, what, group):
        self.reads, self.writes = list(reads), list(writes)
        recorder.take_results((*reads, *writes))
        stream = _streams.setdefault(id(group), stand_in_cuda.StandInStream())
        stream.wait_stream(stand_in_cuda.current_stream())
        with stream:
            storages = [{t.untyped_storage()._cdata for t in ts} for ts in (reads, writes)]
            recorder.order.launch(stream.stream_id, *storages, what)
            self.ended = stand_in_cuda.StandInEvent()
            self.ended.record()
        self._stream = stream

    def wait(self):
        stand_in_cuda.current_stream().wait_event(self.ended)
        self.reads, self.writes = [], []

    def get_future(self):
        future = stand_in_cuda.StandInFuture()
        with self._stream:
            future.set_result(self.writes)
        return future

    def __del__(self):
        _dropped.extend((*self.reads, *self.writes))


class StandInReducer(dist.Reducer):
    """DDP's reducer without what needs numbers: its statistics, and its second buckets.

    DDP begins with one bucket. After the first pass it makes more, in the order in which
    gradients came, and sends that order to all processes; here nothing is sent. So it begins
    with `final_buckets`.
    """

    def set_logger(self, logger):
        pass

    def _rebuild_buckets(self):
        return False


def final_buckets(parameters, limits, sparse):
    """Return buckets of the usual size, as DDP makes them after its first pass."""
    usual = [dist._DEFAULT_FIRST_BUCKET_BYTES, int(USUAL_BUCKET_MB * 1024 * 1024)]
    return _assignment(parameters, usual, sparse)


_assignment = dist._compute_bucket_assignment_by_size


def forget_dropped():
    """Free the tensors of messages that nobody waited for; call it between two updates."""
    _dropped.clear()


class StandInNccl:
    """What torch.distributed does with NCCL, in one of `size` processes."""

    def __init__(self, recorder, size):
        self._recorder = recorder
        if not dist.is_initialized():
            dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=size)
        for name in dir(self):
            if not name.startswith("_"):
                setattr(dist, name, getattr(self, name))
        dist.Reducer, dist.Logger = StandInReducer, MagicMock()
        dist._compute_bucket_assignment_by_size = final_buckets

    def _message(self, name, reads, writes, group, async_op):
        sent = sum(t.numel() * t.element_size() for t in reads)
        MESSAGES.append((name, _name(group), sent))
        work = StandInWork(reads, writes, self._recorder, f"NCCL's {name}", group)
        return work if async_op else work.wait()

    def all_reduce(self, tensor, op=None, group=None, async_op=False):
        return self._message("all_reduce", [tensor], [tensor], group, async_op)

    def all_gather(self, rows, mine, group=None, async_op=False):
        return self._message("all_gather", [mine], rows, group, async_op)

    def all_gather_into_tensor(self, rows, mine, group=None, async_op=False):
        return self._message("all_gather_into_tensor", [mine], [rows], group, async_op)

    def all_to_all_single(self, received, rows, group=None, async_op=False):
        return self._message("all_to_all_single", [rows], [received], group, async_op)

    def gather(self, tensor, gather_list=None, dst=None, group=None, async_op=False):
        return self._message("gather", [tensor], gather_list or [], group, async_op)

    def reduce(self, tensor, dst=None, op=None, group=None, async_op=False):
        return self._message("reduce", [tensor], [tensor], group, async_op)

    def broadcast(self, tensor, src=None, group=None, async_op=False):
        return self._message("broadcast", [tensor], [tensor], group, async_op)

    def get_rank(self, group=None):
        return 0

    def new_group(self, ranks=None, **_):
        return SimpleNamespace(ranks=ranks)


def _name(group):
    if not isinstance(group, SimpleNamespace):
        return "all"
    return "own" if group.ranks is None else str(group.ranks)
