"""Rehearse updates on fake GPUs: read a case from each line, answer with a line of JSON.

`python tests/gpu/rehearse.py < cases`, where a case is a JSON object with fields of `Case`.
"""

import dataclasses
import gc
import json
import sys
import time
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec

import stand_in_cuda
import stand_in_nccl
import torch
from kernel_recorder import KernelRecorder
from saving import read_copy, rehearse_saves
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
from unisono.optim.settings import Adafactor, Adam, Muon
from unisono.schedules import InverseSqrt
from unisono.train.averages import Averages
from unisono.train.precision import Precision, set_tf32
from unisono.train.step import Parts, StepControls, StepRequests, take_step
from unisono.translate.beam import search
from unisono.translate.settings import Decoding

LENGTH = 32  # tokens of a sentence
OPTIMIZERS = {"adam": Adam, "muon": Muon, "adafactor": Adafactor}
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
    first: int = 4096  # tokens of the first update, which makes what is kept
    tokens: tuple[int, ...] = (16_384, 25_000)  # of the micro-batches of the second
    optimizer: str = "adam"
    average: float = 0.0
    saves: bool = False
    triton: bool = False


class StandInGroup(Group):
    """The communicator of process 0, which knows where all processes are."""

    def __init__(self, world, machines):
        super().__init__(world)
        object.__setattr__(self, "_machines", machines)
        object.__setattr__(self, "attaching", True)
        object.__setattr__(self, "saving", False)

    def gather_bytes(self, data):
        if not self.attaching:
            return [data] * self.world.size
        return [f"host{i}".encode() for i, n in enumerate(self._machines) for _ in range(n)]

    def gather(self, numbers):
        if self.attaching:
            return [[local] for n in self._machines for local in range(n)]
        rows = super().gather(numbers)
        # The stand-in's numbers are zeros, and a residual of zeros is not saved.
        return [[1.0] * len(numbers)] * len(rows) if self.saving else rows


def rehearse(case):
    """Return what the last of a case's updates does."""
    recorder = KernelRecorder()
    packed_gather.find_spec = find_spec if case.triton else lambda name: None
    packed_gather.kernels_for.cache_clear()
    stand_in_cuda.HOST_WAITED[:] = [recorder.synchronised]
    stand_in_nccl.StandInNccl(recorder, sum(case.machines))
    set_tf32(case.precision == "tf32", "cuda")
    shapes, peaks = _shapes(case.model, case.vocabulary), []
    began = time.process_time()
    with _fake_gpu(), recorder:
        parts = _parts(case, shapes)

        def update(step, tokens):
            recorder.start()
            stand_in_nccl.MESSAGES.clear()
            stand_in_nccl.forget_dropped()
            scale = 2.0**10 if parts.precision.scales else 1.0
            work = _update(case, tokens)
            done = take_step(parts, work, step, StepRequests(), StepControls(1.0, scale))
            assert not done.skipped

        update(1, (case.first,))
        peaks.append(recorder.peak)
        update(2, case.tokens)
        # Three copies begin a micro-batch: the peak before them is that of the one before.
        peaks += [*recorder.peaks[3::3], recorder.peak]
        found = _found(recorder)
        found |= rehearse_saves(parts, recorder, update) if case.saves else {}
    return {
        **found,
        "peaks_gb": [round(peak / 1e9, 4) for peak in peaks],
        "races": sorted(recorder.order.races),
        "freed_early": sorted(recorder.order.freed_early),
        "seconds": round(time.process_time() - began, 2),
    }


def _found(recorder):
    return {
        "launches": recorder.launches,
        "megabytes": round(recorder.bytes / 1e6, 1),
        "synchronisations": dict(recorder.synchronisations),
        "copies": dict(recorder.copies),
        "on_cpu": dict(recorder.on_cpu),
        "messages": list(stand_in_nccl.MESSAGES),
        "kernels": dict(recorder.kernels.most_common(12)),
        "fused": {name: recorder.kernels[name] for name in FUSED},
    }


class _FakeGpu(FakeTensorMode):
    """Makes fake tensors; those that are made from numbers begin on the CPU."""

    avoid_device_init = True


def _fake_gpu():
    return _FakeGpu(allow_non_fake_inputs=True)


@cache
def _shapes(model, vocabulary):
    return weight_shapes(TransformerSettings(**MODELS[model]), vocabulary)


def _parts(case, shapes):
    size = sum(case.machines)
    world = World(0, size, 0, case.machines[0], "cuda:0")
    comm = StandInGroup(world, case.machines) if size > 1 else Solo(world)
    settings = TransformerSettings(**MODELS[case.model])
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
        optimizer=build_optimizer(OPTIMIZERS[case.optimizer](), model),
        schedule=InverseSqrt(),
        seed=1,
        label_smoothing=0.1,
        clip_norm=1.0,
        averages=Averages(model.named_parameters(), case.average),
        precision=Precision(kind, "cuda:0"),
        stopwatch=stopwatch_for("cuda:0"),
    )


def _update(case, tokens):
    batches = []
    for number, size in enumerate(tokens):
        ids = torch.ones(size // LENGTH, LENGTH, dtype=torch.int64).pin_memory()
        batches.append(Batch(number, ids, ids, ids))
    total = sum(tokens) * sum(case.machines)
    plan = StepPlan(1, (), 0, total, total, total // LENGTH)
    return PreparedUpdate(plan, 0, 100, tuple(batches))


def evaluated(beam):
    """Return what a validation's loss and a beam search do."""
    recorder = KernelRecorder()
    stand_in_cuda.HOST_WAITED[:] = [recorder.synchronised]
    with _fake_gpu(), recorder:
        case = Case()
        model = _parts(case, _shapes(case.model, case.vocabulary)).replica.module.eval()
        batch = _update(case, (512,)).batches[0].to(torch.device("cuda:0"))
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
        if kind in ("right", "read"):
            stand_in_cuda.current_stream().wait_stream(side)
            total += 1
        del rows
        stand_in_cuda.current_stream().wait_stream(side)
        read_copy(recorder.order, torch.zeros(9, device="cuda:0"), waits=kind != "read")
    found = recorder.order
    return {
        "races": len(found.races),
        "freed_early": len(found.freed_early),
        "read_early": len(found.read_early),
    }


def answer(case):
    if "planted" in case:
        return planted(case["planted"])
    if "beam" in case:
        return evaluated(case["beam"])
    made = Case(**{k: tuple(v) if isinstance(v, list) else v for k, v in case.items()})
    return {**dataclasses.asdict(made), **rehearse(made)}


def main():
    gc.disable()  # memory is freed where the last reference ends, at the same place each time
    gc.freeze()  # torch itself is no garbage: looking through it takes longer than the rest
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)
        gc.collect()


if __name__ == "__main__":
    main()
