"""Rehearse updates on fake GPUs: read a case from each line, answer with a line of JSON.

`python tests/gpu/rehearse.py < cases`, where a case is a JSON object with fields of `Case`.
"""

import dataclasses
import gc
import json
import sys
import time
from dataclasses import dataclass
from importlib.util import find_spec

import stand_in_cuda
import stand_in_nccl
import torch
from kernel_recorder import KernelRecorder
from torch._subclasses.fake_tensor import FakeTensorMode

from unisono.batching.plan import StepPlan
from unisono.batching.stream import Batch, PreparedUpdate
from unisono.comm.device_stopwatch import stopwatch_for
from unisono.comm.group import Group, Solo
from unisono.comm.protocol import World
from unisono.comm.settings import Sync
from unisono.comm.strategies import packed_gather
from unisono.comm.strategies.build import strategy_of
from unisono.models.output import token_losses
from unisono.models.settings import PRESETS, TransformerSettings
from unisono.models.transformer import load_model, weight_shapes
from unisono.optim.build import build_optimizer
from unisono.optim.settings import Adam
from unisono.schedules import InverseSqrt
from unisono.train.precision import Precision, set_tf32
from unisono.train.step import Parts, StepControls, StepRequests, take_step
from unisono.translate.beam import search
from unisono.translate.settings import Decoding

LENGTH = 32  # tokens of a sentence
FUSED = ("quantize_with_residual", "sum_messages")
MODELS = {
    **PRESETS,
    "one_layer": {**PRESETS["tiny"], "width": 64, "encoder_layers": 1, "decoder_layers": 1},
}


@dataclass(frozen=True)
class Case:
    """One rehearsal. `machines` says how many processes each machine has."""

    strategy: str = "ddp"
    precision: str = "fp32"
    machines: tuple[int, ...] = (1,)
    bits: int = 8
    model: str = "one_layer"
    vocabulary: int = 1000
    tokens: int = 512
    micro_batches: int = 2
    updates: int = 2
    triton: bool = False


class StandInGroup(Group):
    """The communicator of process 0, which knows where all processes are."""

    def __init__(self, world, machines):
        super().__init__(world)
        object.__setattr__(self, "_machines", machines)
        object.__setattr__(self, "attaching", True)

    def gather_bytes(self, data):
        return [f"host{i}".encode() for i, n in enumerate(self._machines) for _ in range(n)]

    def gather(self, numbers):
        if self.attaching:
            return [[local] for n in self._machines for local in range(n)]
        return super().gather(numbers)


def rehearse(case):
    """Return what the last of a case's updates does."""
    recorder = KernelRecorder()
    packed_gather.find_spec = find_spec if case.triton else lambda name: None
    packed_gather.kernels_for.cache_clear()
    stand_in_cuda.HOST_WAITED[:] = [recorder.synchronised]
    stand_in_nccl.StandInNccl(recorder, sum(case.machines))
    set_tf32(case.precision == "tf32", "cuda")
    began = time.perf_counter()
    with _fake_gpu(), recorder:
        parts = _parts(case)
        for step in range(1, case.updates + 1):
            recorder.start()
            stand_in_nccl.MESSAGES.clear()
            stand_in_nccl.forget_dropped()
            scale = 2.0**10 if parts.precision.scales else 1.0
            # The updates before the last one only fill what is kept: a micro-batch will do.
            micro_batches = case.micro_batches if step == case.updates else 1
            update = _update(case, micro_batches)
            done = take_step(parts, update, step, StepRequests(), StepControls(1.0, scale))
            assert not done.skipped
    return {
        "launches": recorder.launches,
        "megabytes": round(recorder.bytes / 1e6, 1),
        "peak_gb": round(recorder.peak / 1e9, 3),
        "synchronisations": dict(recorder.synchronisations),
        "copies": dict(recorder.copies),
        "on_cpu": dict(recorder.on_cpu),
        "races": sorted(recorder.order.races),
        "freed_early": sorted(recorder.order.freed_early),
        "messages": list(stand_in_nccl.MESSAGES),
        "kernels": dict(recorder.kernels.most_common(12)),
        "fused": {name: recorder.kernels[name] for name in FUSED},
        "seconds": round(time.perf_counter() - began, 1),
    }


class _FakeGpu(FakeTensorMode):
    """Makes fake tensors; those that are made from numbers begin on the CPU."""

    avoid_device_init = True


def _fake_gpu():
    return _FakeGpu(allow_non_fake_inputs=True)


def _parts(case):
    size = sum(case.machines)
    world = World(0, size, 0, case.machines[0], "cuda:0")
    comm = StandInGroup(world, case.machines) if size > 1 else Solo(world)
    settings = TransformerSettings(**MODELS[case.model])
    shapes = weight_shapes(settings, case.vocabulary)
    weights = {name: torch.empty(shape, device="cuda:0") for name, shape in shapes.items()}
    model = load_model(settings, case.vocabulary, weights)
    sync = Sync(strategy=case.strategy, bits=case.bits, warmup_steps=0)
    replica = strategy_of(sync, adaptive=True).attach(model, comm)
    if size > 1:
        comm.__dict__["attaching"] = False
    kind = "fp32" if case.precision == "tf32" else case.precision
    return Parts(
        replica=replica,
        comm=comm,
        optimizer=build_optimizer(Adam(), model),
        schedule=InverseSqrt(),
        seed=1,
        label_smoothing=0.1,
        clip_norm=1.0,
        precision=Precision(kind, "cuda:0"),
        stopwatch=stopwatch_for("cuda:0"),
    )


def _update(case, micro_batches=1):
    rows = case.tokens // LENGTH
    ids = torch.ones(rows, LENGTH, dtype=torch.int64).pin_memory()
    batches = tuple(Batch(i, ids, ids, ids) for i in range(micro_batches))
    tokens = case.tokens * micro_batches * sum(case.machines)
    return PreparedUpdate(StepPlan(1, (), 0, tokens, tokens, rows), 0, 100, batches)


def evaluated(beam):
    """Return what a validation's loss and a beam search do."""
    recorder = KernelRecorder()
    stand_in_cuda.HOST_WAITED[:] = [recorder.synchronised]
    with _fake_gpu(), recorder:
        case = Case()
        model = _parts(case).replica.module.eval()
        batch = _update(case).batches[0].to(torch.device("cuda:0"))
        token_losses(model, batch.source, batch.target_in, batch.target_out)
        recorder.start()  # the model and its table of positions are there now
        token_losses(model, batch.source, batch.target_in, batch.target_out)
        found = search([model], batch.source, Decoding(beam=beam, max_extra=2))
    return {"sentences": len(found), "on_cpu": recorder.on_cpu, "launches": recorder.launches}


def planted(kind):
    """Return what the recorder finds where two streams do not wait for each other."""
    recorder, side = KernelRecorder(), stand_in_cuda.StandInStream()
    with _fake_gpu(), recorder:
        rows = torch.zeros(1000, device="cuda:0")
        if kind != "race":
            side.wait_stream(stand_in_cuda.current_stream())
        with side:
            total = rows * 2
        if kind == "right":
            stand_in_cuda.current_stream().wait_stream(side)
            total += 1
        del rows
        stand_in_cuda.current_stream().wait_stream(side)
    return {"races": len(recorder.order.races), "freed_early": len(recorder.order.freed_early)}


def answer(case):
    if "planted" in case:
        return planted(case["planted"])
    if "beam" in case:
        return evaluated(case["beam"])
    made = Case(**{**case, "machines": tuple(case.get("machines", (1,)))})
    return {**dataclasses.asdict(made), **rehearse(made)}


def main():
    gc.disable()  # memory is freed where the last reference ends, at the same place each time
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)
        gc.collect()


if __name__ == "__main__":
    main()
