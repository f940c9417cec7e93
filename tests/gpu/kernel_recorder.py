"""Records what a GPU would do: kernels, bytes, synchronisations, memory, order of streams.

A stream is a row of kernels. Vector clocks say which kernel comes before which: a kernel
follows those before it in its own stream, and those that its stream has waited for. Two
kernels of which one writes what the other uses must be ordered. Memory belongs to the stream
that allocated it: once freed, the next kernel of that stream may get it, so every other stream
that used it must be done by then. What a copy writes to pinned memory, the host may read once
it has waited for that copy.
"""

import math
import sys
import weakref
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import cache

import stand_in_cuda
import torch
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten
RECORDED, WAITS, HOST_WAITS_FOR_STREAM, HOST_WAITS_FOR_EVENT = range(4)
NO_KERNEL = {
    "empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided", "detach",
    "_unsafe_view", "lift_fresh", "set_", "resize_", "_pin_memory", "is_pinned",
}  # fmt: skip
TENSORS_OF_A_LAUNCH = {1: 110, 2: 64, 3: 48, 4: 36, 5: 30}  # by lists: MultiTensorApply.cuh
CHUNK, CHUNKS_OF_A_LAUNCH = 65536, 320
SOURCES = "/src/unisono/"


@dataclass
class Use:
    """The last kernels that used some memory: which one wrote it, and which read it."""

    home: int
    written: tuple[int, int] | None = None
    used: dict[int, int] = field(default_factory=dict)
    shared: bool = False  # with another stream, and the allocator knows (`record_stream`)
    what: str = ""


class StreamOrder:
    """The vector clocks of all streams, and what they show to be unordered."""

    def __init__(self):
        self.clocks = defaultdict(Counter)
        self.events, self.host, self.memory = {}, Counter(), {}
        self.races, self.freed_early, self.read_early = set(), set(), set()

    def read_log(self):
        for kind, event, stream in stand_in_cuda.drain():
            if kind == RECORDED:
                self.events[event] = Counter(self.clocks[stream])
            elif kind == WAITS:
                self.clocks[stream] |= self.events.get(event, Counter())
            elif kind == HOST_WAITS_FOR_STREAM:
                self.host |= self.clocks[stream]
            else:
                self.host |= self.events.get(event, Counter())

    def launch(self, stream, reads, writes, what):
        """Note a kernel that reads and writes these storages."""
        self.read_log()
        clock = self.clocks[stream]
        clock |= self.host
        for storage in {*reads, *writes}:
            self._check(stream, clock, storage, storage in writes, what)
        clock[stream] += 1
        for storage in {*reads, *writes}:
            use = self.memory.setdefault(storage, Use(stream, what=what))
            use.used[stream] = clock[stream]
            if storage in writes:
                use.written, use.what = (stream, clock[stream]), what

    def _check(self, stream, clock, storage, writes, what):
        use = self.memory.get(storage)
        if use is None:
            return
        before = use.used.items() if writes else [use.written] if use.written else []
        for other, number in before:
            if other != stream and clock[other] < number:
                self.races.add(f"{what} does not wait for {use.what}")

    def allocated(self, storage, what):
        self.memory[storage] = Use(stand_in_cuda.stream_now(), what=what)

    def host_reads(self, storage):
        """Note that the host reads pinned memory."""
        self.read_log()
        use = self.memory[storage]
        stream, number = use.written
        if self.host[stream] < number:
            self.read_early.add(use.what)

    def freed(self, storage):
        self.read_log()
        use = self.memory.pop(storage, None)
        if use is None or use.shared:
            return
        known = self.clocks[use.home] | self.host
        for stream, number in use.used.items():
            if stream != use.home and known[stream] < number:
                self.freed_early.add(use.what)


class KernelRecorder(TorchDispatchMode):
    """Records one or several updates; `start` begins anew."""

    @classmethod
    def _should_skip_dynamo(cls):
        return False  # nothing is compiled here, and looking for that takes time

    def __init__(self):
        super().__init__()
        self.order, self.live, self.sizes = StreamOrder(), 0, {}
        self.start()

    def start(self):
        self.launches = self.bytes = self.pinned_bytes = 0
        self.peak, self.peaks = self.live, []  # the peak before each copy to the GPU
        self.kernels, self.synchronisations, self.on_cpu = Counter(), Counter(), Counter()
        self.copies = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func.namespace == "prim":
            return func(*args, **kwargs)
        if func is aten._local_scalar_dense.default and args[0].device.type == "cuda":
            self.synchronised("item")
            self._launched(func, args, kwargs, (), f"item in {caller()}")
            return 1.0 if args[0].dtype.is_floating_point else 1
        result = self._result(func, args, kwargs)
        self._note(func, args, kwargs, _tensors((args, kwargs)), _tensors((result,)))
        return result

    def _note(self, func, args, kwargs, given, made):
        name = func.overloadpacket.__name__
        runs = name not in NO_KERNEL and not _schema(func).is_view
        where = f"{name} in {caller()}"
        if not any(t.device.type == "cuda" for t in (*given, *made)):
            if given and runs:
                self.on_cpu[where] += 1
            return
        for tensor in made:
            self._allocated(tensor, where)
        copies = name == "copy_"  # other kernels get a number of the host as an argument
        on_host = [t for t in (*given, *made) if t.device.type == "cpu" and (t.dim() or copies)]
        if runs and on_host:
            self._copied(func, args, kwargs, (*made, *given), where)
        elif runs:
            self._launched(func, args, kwargs, made, where)

    def _result(self, func, args, kwargs):
        if func is aten.nonzero.default and args[0].device.type == "cuda":
            self.synchronised("nonzero")  # how many there are is not known: say all
            shape = args[0].numel(), args[0].dim()
            return torch.zeros(shape, dtype=torch.int64, device=args[0].device)
        if not kwargs.get("pin_memory"):
            return func(*args, **kwargs)
        pinned = stand_in_cuda.pin_memory(func(*args, **{**kwargs, "pin_memory": False}))
        self.pinned_bytes += pinned.untyped_storage().nbytes()
        return pinned

    def synchronised(self, how):
        self.synchronisations[f"{how} in {caller()}"] += 1

    def _copied(self, func, args, kwargs, tensors, where):
        to_gpu = tensors[0].device.type == "cuda"  # the first one is the result
        blocking = not (kwargs.get("non_blocking") or (len(args) > 2 and args[2] is True))
        host = next(t for t in tensors if t.device.type == "cpu")
        pinned = getattr(host, "stand_in_pinned", False)
        direction = "to the GPU" if to_gpu else "from the GPU"
        kind = "pinned" if pinned and not blocking else "blocking" if blocking else "pageable"
        self.copies[f"{kind} {direction} in {where.partition(' in ')[2]}"] += 1
        if to_gpu:
            self.peaks.append(self.peak)
        self._launched(func, args, kwargs, [t for t in tensors[:1] if to_gpu], where)
        if not to_gpu:
            self.order.launch(stand_in_cuda.stream_now(), (), _storages([host], "cpu"), where)

    def _launched(self, func, args, kwargs, made, where):
        reads, writes = _reads_and_writes(func, args, kwargs, made)
        launches = _launches(func, args)
        self.launches += launches
        self.kernels[func.overloadpacket.__name__] += launches
        self.bytes += sum(t.numel() * t.element_size() for t in (*reads, *writes))
        stream = stand_in_cuda.stream_now()
        self.take_results((*reads, *writes))
        self.order.launch(stream, _storages(reads), _storages(writes), where)

    def take_results(self, tensors):
        """Let the current stream wait for those that are results of a future."""
        for tensor in tensors if stand_in_cuda.RESULTS else ():
            event = stand_in_cuda.RESULTS.pop(_storage(tensor), None)
            if event is not None:
                stand_in_cuda.current_stream().wait_event(event)
                self._use(tensor).shared = True

    def _use(self, tensor):
        return self.order.memory.setdefault(_storage(tensor), Use(stand_in_cuda.stream_now()))

    def _allocated(self, tensor, what):
        storage = tensor.untyped_storage()
        if tensor.device.type != "cuda" or storage._cdata in self.sizes:
            return
        size = self.sizes[storage._cdata] = -(-storage.nbytes() // 512) * 512
        self.live += size
        self.peak = max(self.peak, self.live)
        self.order.allocated(storage._cdata, what)
        weakref.finalize(storage, self._freed, storage._cdata)

    def _freed(self, storage):
        self.live -= self.sizes.pop(storage, 0)
        stand_in_cuda.RESULTS.pop(storage, None)
        self.order.freed(storage)


_ours = {}  # what `caller` returns for a function, or None if it is not ours


def caller():
    """Return the innermost function of ours, or where autograd computes gradients."""
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code not in _ours:
            _, ours, path = code.co_filename.partition(SOURCES)
            _ours[code] = f"{path}:{code.co_name}" if ours else None
        if _ours[code] is not None:
            return _ours[code]
        frame = frame.f_back
    return "the backward pass"


def _tensors(values):
    found = []
    for value in values.values() if isinstance(values, dict) else values:
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple, dict)):
            found.extend(_tensors(value))
    return found


def _storage(tensor):
    return tensor.untyped_storage()._cdata


def _storages(tensors, device="cuda"):
    return {_storage(t) for t in tensors if t.device.type == device}


@dataclass(frozen=True)
class Schema:
    """What an operation does with its arguments: their names, and which of them it writes."""

    arguments: tuple[tuple[str, bool], ...]
    is_view: bool

    @property
    def writes(self):
        return any(written for _, written in self.arguments)


@cache
def _schema(func):
    schema = func._schema
    written = [a.alias_info is not None and a.alias_info.is_write for a in schema.arguments]
    names = [a.name for a in schema.arguments]
    views = [r.alias_info is not None and not r.alias_info.is_write for r in schema.returns]
    return Schema(tuple(zip(names, written, strict=True)), bool(views) and all(views))


def _reads_and_writes(func, args, kwargs, made):
    reads, writes, schema = [], list(made), _schema(func)
    for number, (name, written) in enumerate(schema.arguments):
        value = args[number] if number < len(args) else kwargs.get(name)
        (writes if written else reads).extend(_tensors((value,)))
    if not schema.writes:
        return reads, writes
    by_storage = {(_storage(t), t.storage_offset(), t.shape): t for t in writes}
    return reads, list(by_storage.values())


def _launches(func, args):
    name = func.overloadpacket.__name__
    if not name.startswith(("_foreach", "_fused_adam")) or not args:
        return 1
    lists = [arg for arg in args if isinstance(arg, (list, tuple)) and _tensors(arg)]
    most = TENSORS_OF_A_LAUNCH.get(len(lists), 30)
    chunks = sum(math.ceil(t.numel() / CHUNK) for t in lists[0])
    return max(math.ceil(len(lists[0]) / most), math.ceil(chunks / CHUNKS_OF_A_LAUNCH))
