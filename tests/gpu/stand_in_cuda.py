"""A stand-in for CUDA on a machine without a GPU: import this before anything imports torch.

It compiles `guard.cpp` once, loads it, and gives `torch.cuda` streams and events that only
have numbers. Tensors are to be fake: nothing is computed.
"""

import ctypes
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from contextlib import nullcontext
from importlib.metadata import version
from pathlib import Path
from typing import TypeVar

SOURCE = Path(__file__).with_name("guard.cpp")
GPUS, CAPABILITY = 8, (7, 0)


def compiled_guard():
    """Return the path of the compiled guard, which is kept for this source and this torch."""
    key = hashlib.sha256(SOURCE.read_bytes() + version("torch").encode()).hexdigest()[:16]
    caches = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    guard = caches / "unisono-tests" / f"cuda-guard-{key}.so"
    if not guard.is_file():
        guard.parent.mkdir(parents=True, exist_ok=True)
        torch_home = _torch_home()
        made = guard.with_suffix(f".{os.getpid()}")
        command = ["g++", "-O1", "-std=c++20", "-shared", "-fPIC", "-w", str(SOURCE)]
        command += [f"-I{torch_home}/include", f"-L{torch_home}/lib", "-lc10", "-ltorch_cpu"]
        subprocess.run([*command, "-o", str(made)], check=True)
        made.replace(guard)  # others may be compiling it, too
    return guard


def missing():
    """Return why there can be no rehearsal here, or ""."""
    if shutil.which("g++") is None:
        return "g++ is missing, which compiles the stand-in for CUDA (apt install g++)"
    if "+cpu" not in version("torch"):
        return "torch has CUDA of its own; the rehearsal is for machines without"
    return ""


def _torch_home():
    found = importlib.util.find_spec("torch")
    return Path(found.origin).parent


def load_guard():
    """Load the guard into this process; torch must not be there yet."""
    if "torch" in sys.modules:
        raise RuntimeError("import stand_in_cuda before torch")
    for name in ("libc10.so", "libtorch_cpu.so"):
        ctypes.CDLL(str(_torch_home() / "lib" / name), ctypes.RTLD_GLOBAL)
    guard = ctypes.CDLL(str(compiled_guard()), ctypes.RTLD_GLOBAL)
    guard.drain.restype = guard.stream_of_thread.restype = ctypes.c_int64
    return guard


GUARD = load_guard()

import torch  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensor  # noqa: E402
from torch.futures import Future  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from torch.utils import _foreach_utils  # noqa: E402

ROOM, T = 4096, TypeVar("T")
CUDA_TYPE = torch.Stream(device="cuda:0").device_type
_log = (ctypes.c_int64 * 3 * ROOM)()


def drain():
    """Return the log of the guard since the last call: (kind, event, stream) each."""
    return [tuple(_log[i]) for i in range(GUARD.drain(_log, ROOM))]


def stream_now():
    """Return the number of the stream of this thread."""
    return GUARD.stream_of_thread(0)


HOST_WAITED = []  # functions to call when the host waits for a stream or an event


class StandInStream(torch.Stream):
    """A stream that has a number."""

    def __new__(cls, device="cuda:0", stream_id=None, **_):
        if stream_id is None:
            return super().__new__(cls, device=torch.device(device))
        return super().__new__(cls, stream_id=stream_id, device_index=0, device_type=CUDA_TYPE)

    def synchronize(self):
        super().synchronize()
        for note in HOST_WAITED:
            note("stream.synchronize")


class StandInEvent(torch.Event):
    """An event that can be waited for, and never takes any time."""

    def __new__(cls, enable_timing=False, **_):
        return super().__new__(cls, "cuda:0", enable_timing=enable_timing)

    def record(self, stream=None):
        super().record(stream or current_stream())

    def synchronize(self):
        super().synchronize()
        for note in HOST_WAITED:
            note("event.synchronize")

    def elapsed_time(self, later):
        return 1.0


def current_stream(device=None):
    return StandInStream(stream_id=stream_now())


def synchronize(device=None):
    """Wait for the whole device: here, for the current stream."""
    torch.Stream.synchronize(current_stream())
    for note in HOST_WAITED:
        note("torch.cuda.synchronize")


def use_stream(stream):
    """Do what `torch.cuda.stream` does."""
    return stream


RESULTS = {}  # storage: the event that was recorded when it became the result of a future


class StandInFuture(Future[T]):
    """A future of CUDA tensors: its result comes with an event, and whoever takes it waits.

    torch's own looks at the memory of its result, and fake tensors have none.
    """

    def __new__(cls, *, devices=None):
        return super().__new__(cls)

    def __init__(self, *, devices=None):
        super().__init__()

    def set_result(self, result):
        event = StandInEvent()
        event.record()
        for tensor in [result] if isinstance(result, torch.Tensor) else result:
            RESULTS[tensor.untyped_storage()._cdata] = event
        super().set_result(result)


def to_list(tensor):
    """Return zeros in the shape of a fake tensor: no flag is set, nothing is infinite."""
    for note in HOST_WAITED:
        note("tolist")
    torch.Stream.synchronize(current_stream())
    return _zeros(tuple(tensor.shape), 0.0 if tensor.dtype.is_floating_point else 0)


def _zeros(shape, zero):
    return [_zeros(shape[1:], zero) for _ in range(shape[0])] if shape else zero


def pin_memory(tensor):
    """Return the tensor, marked as pinned."""
    tensor.stand_in_pinned = True
    return tensor


def attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False):
    """Attend by the memory-efficient kernel, as every GPU from P100 on can."""
    if attn_mask is not None:
        shape = (*query.shape[:3], key.size(2))
        attn_mask = attn_mask.expand(shape)
    return torch.ops.aten._scaled_dot_product_efficient_attention(
        query, key, value, attn_mask, torch.is_grad_enabled(), dropout_p, is_causal
    )[0]


def stand_in():
    """Let torch.cuda answer as on a machine with GPUs."""
    cuda = torch.cuda
    cuda._lazy_init = lambda: None
    cuda.is_available = cuda.is_initialized = lambda: True
    cuda.device_count = lambda: GPUS
    cuda.current_device = lambda: 0
    cuda.get_device_capability = lambda device=None: CAPABILITY
    cuda.is_bf16_supported = lambda including_emulation=True: True
    cuda.set_device = cuda.manual_seed_all = lambda _: None
    cuda.amp.common.amp_definitely_not_available = lambda: False
    cuda.Stream, cuda.Event = StandInStream, StandInEvent
    cuda.stream, cuda.current_stream = use_stream, current_stream
    cuda.synchronize = synchronize
    torch.futures.Future = StandInFuture
    F.scaled_dot_product_attention = attention
    # Fake tensors cannot be made from numbers in inference mode.
    torch.inference_mode = lambda mode=True: torch.no_grad() if mode else nullcontext()
    # torch uses its fused loops for plain tensors alone; on a GPU these are plain.
    _foreach_utils._foreach_supported_types.append(FakeTensor)
    torch.Tensor.pin_memory, FakeTensor.tolist = pin_memory, to_list


stand_in()
