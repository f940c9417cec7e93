"""A run before the run: its real work and its real network, measured in under a minute.

Computing and link are measured in turns, because machines that others use as well are not
equally fast all the time. No gradients are exchanged, nothing is left on the disk, and in the
end every process knows everything, and the same: all come to one forecast and one exit code.
"""

import os
import resource
import shutil
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import msgspec
import psutil
import torch

from unisono.comm.ddp import Ddp
from unisono.comm.link_probe import latency, one_way_rates, sum_of, sustained
from unisono.comm.packing_probe import narrowing_cost, outer_cost, packing_costs
from unisono.comm.protocol import Comm, Strategy, World
from unisono.comm.together import all_or_none
from unisono.comm.waiting import Tell, say_nothing
from unisono.config.settings import Settings
from unisono.corpus.reader import Corpus, open_corpus
from unisono.models.transformer import TransformerModel
from unisono.physics.exchange import narrowed
from unisono.physics.measured import Gradient, Job, Measured, OneWay, Process, Sum, Update
from unisono.physics.way import AUTO
from unisono.records.events import Saved
from unisono.train.build import build_session
from unisono.train.claim import check_made_as_told
from unisono.train.joined import joined
from unisono.train.loop import Session
from unisono.train.memory import keep_freed_memory
from unisono.train.possible import check_possible
from unisono.train.precision import set_tf32
from unisono.train.progress import Progress
from unisono.train.sameness import same_everywhere
from unisono.train.signals import Signals
from unisono.train.trial import NotExchanged, Trial

SECONDS = 35.0
PATIENCE_SECONDS = 60.0
FEWEST_ROUNDS = 4
WARM_UPS = 2
# Where rounds take so long that the fewest do not fit into the time, two are enough.
LATE_SECONDS, FEWEST_IF_LATE = 15.0, 2
SUM_SECONDS = 0.8
FIRST_SUM_BYTES = 1 << 20
STREAM_SHARE = 0.15  # of the time, for a steady stream that shows whether a rate lasts
FLOAT = 4


def run_rehearsal(
    settings: Settings, seconds: float = SECONDS, tell: Tell = say_nothing
) -> tuple[Measured, World]:
    """Rehearse alone, or with the processes started with this one; return its place, too."""
    with joined(settings, PATIENCE_SECONDS, tell) as comm:
        corpus = all_or_none(
            comm, lambda: open_corpus(Path(settings.corpus.directory), verify=True)
        )
        same_everywhere(comm, settings, corpus)
        check_possible(comm, settings, corpus)
        all_or_none(comm, lambda: check_made_as_told(settings, corpus))
        set_tf32(settings.train.tf32, comm.world.device)
        return rehearse(comm, settings, corpus, seconds, tell), comm.world


def rehearse(
    comm: Comm,
    settings: Settings,
    corpus: Corpus,
    seconds: float = SECONDS,
    tell: Tell = say_nothing,
    *,
    whole: bool = True,
) -> Measured:
    """Return what the run of `settings` would do with the processes of `comm`.

    Without the `whole`, only updates and their exchange are measured.
    """
    began = time.perf_counter()
    keep_freed_memory()
    with _scratch(settings, comm) as directory:
        aside = msgspec.structs.replace(settings, run=directory)
        strategy: Strategy = Ddp() if comm.world.size == 1 else NotExchanged()
        session, model = build_session(aside, corpus, comm, Signals(), strategy)
        with closing(Trial(session)) as trial:
            tell("measuring the network, then computing and network in turns")
            pairs, pulses, ping = _network(comm, seconds * STREAM_SHARE)
            packings = [] if comm.world.size == 1 else packing_costs(comm)
            outer = 0.0 if comm.world.size == 1 else outer_cost(comm)
            narrowing = _narrowing(comm, model, settings.sync.low_rank) if whole else 0.0
            gradients = [] if comm.world.size == 1 else _gradients(comm, trial, model)
            updates, sums = _turns(comm, trial, model, began + seconds)
            beside = _Beside()
            if whole:
                tell("measuring an evaluation, a checkpoint and the data")
                beside = _beside(session, trial, model)
            job = _job(settings, session, trial, model, gradients)
        mine = _process(settings, comm, updates, sums)
    told = comm.gather_bytes(msgspec.json.encode(mine))
    measured = Measured(
        job=job,
        processes=tuple(msgspec.json.decode(row, type=Process) for row in told),
        pairs=tuple(pairs),
        pulses=tuple(pulses),
        latency=ping,
        packings=tuple(packings),
        outer_seconds=outer,
        narrowing_seconds=narrowing,
        loader_seconds=beside.loader,
        evaluation_seconds=beside.evaluation + beside.translation,
        translation_seconds=beside.translation,
        checkpoint_seconds=beside.checkpoint,
        checkpoint_bytes=beside.checkpoint_bytes,
        seconds=time.perf_counter() - began,
    )
    # Shares and clocks differ: what follows from them must not differ from process to process.
    first = comm.gather_bytes(msgspec.json.encode(measured) if comm.world.leads else b"")[0]
    return msgspec.json.decode(first, type=Measured)


@dataclass(frozen=True)
class _Beside:
    """Seconds of what a run does besides its updates."""

    loader: float = 0.0
    evaluation: float = 0.0
    translation: float = 0.0
    checkpoint: float = 0.0
    checkpoint_bytes: int = 0


def _beside(session: Session, trial: Trial, model: TransformerModel) -> _Beside:
    comm = session.parts.comm
    loader = _worst(comm, trial.loader_seconds())
    evaluation = _worst(comm, trial.evaluation_seconds(model))
    translation = _worst(comm, trial.translation_seconds(model))
    saved = session.keeper.save(Progress())
    if not isinstance(saved, Saved):
        return _Beside(loader, evaluation, translation)
    return _Beside(loader, evaluation, translation, saved.seconds, saved.bytes)


def _scratch(settings: Settings, comm: Comm) -> "tempfile.TemporaryDirectory[str]":
    """Return a directory on the disk of the run, which is gone when the block ends."""
    where = _existing(Path(settings.run or "."))
    return all_or_none(
        comm, lambda: tempfile.TemporaryDirectory(dir=where, prefix=".unisono-check-")
    )


def _existing(path: Path) -> Path:
    path = path.absolute()
    while not path.is_dir():
        path = path.parent
    return path


def _network(comm: Comm, seconds: float) -> tuple[list[OneWay], list[float], float]:
    firsts = [int(row[0]) for row in comm.gather([comm.world.local_rank])]
    machines = [rank for rank, local in enumerate(firsts) if local == 0]
    if len(machines) < 2:
        return [], [], latency(comm)
    pairs = one_way_rates(comm, machines)
    slowest = min(pair.rate for pair in pairs)
    return pairs, sustained(comm, machines, slowest, seconds), latency(comm)


def _gradients(comm: Comm, trial: Trial, model: TransformerModel) -> list[Gradient]:
    """Return the leading process's: it is the one by which DDP fills its buckets."""
    mine = msgspec.json.encode(trial.gradients(model))
    return msgspec.json.decode(comm.gather_bytes(mine)[0], type=list[Gradient])


def _turns(
    comm: Comm, trial: Trial, model: TransformerModel, until: float
) -> tuple[list[Update], list[Sum]]:
    """Compute and exchange in turns until it is time; return both, round by round."""
    most = sum(weight.numel() for weight in model.parameters()) * FLOAT
    size = min(most, FIRST_SUM_BYTES)
    updates, sums = [], []
    for number in range(10_000):
        updates.append(trial.round())
        sums.append(sum_of(comm, size // FLOAT))
        slowest = _worst(comm, sums[-1].seconds)
        size = int(min(most, max(FLOAT, size * SUM_SECONDS / max(slowest, 1e-6))))
        enough = number >= WARM_UPS + FEWEST_ROUNDS
        limit = until if enough else until + LATE_SECONDS
        if number >= FEWEST_IF_LATE and comm.any(time.perf_counter() > limit):
            break
    first = min(WARM_UPS, len(updates) - FEWEST_IF_LATE)
    return updates[first:], sums[first:]


def _job(
    settings: Settings,
    session: Session,
    trial: Trial,
    model: TransformerModel,
    gradients: list[Gradient],
) -> Job:
    limits, sync = settings.train, settings.sync
    epochs = limits.max_epochs * session.stream.updates_in(1)
    updates = min((n for n in (limits.max_steps, epochs) if n), default=0)
    # The closing updates are those before `max_steps`, whatever ends the run before.
    closing = sync.closing_steps if sync.closing_steps < limits.max_steps else 0
    count = len(trial.tokens)
    return Job(
        parameters=sum(weight.numel() for weight in model.parameters()),
        tokens_per_update=sum(trial.tokens) / count,
        sentences_per_update=sum(trial.sentences) / count,
        updates=updates,
        evaluation_every=settings.validation.every_steps,
        checkpoint_every=settings.checkpoint.every_steps,
        tail=count / sum(trial.batches),
        bucket_mb=sync.bucket_mb,
        strategy=sync.strategy,
        bits=sync.bits,
        local_steps=sync.local_steps,
        warmup_steps=0 if sync.strategy == AUTO else sync.warmup_steps,
        closing_steps=max(0, closing - (limits.max_steps - updates)),
        averages=limits.average > 0,
        narrow_numbers=_narrow_numbers(model, sync.low_rank),
        gradients=tuple(gradients),
    )


def _narrow_numbers(model: TransformerModel, rank: int) -> int:
    """Return how many numbers PowerSGD sends of a gradient."""
    shapes = [weight.shape for weight in model.parameters() if weight.requires_grad]
    return sum(narrowed(*s, rank) if len(s) == 2 else s.numel() for s in shapes)


def _narrowing(comm: Comm, model: TransformerModel, rank: int) -> float:
    """Return the seconds that PowerSGD computes in an update."""
    shapes = [(s[0], s[1]) for s in (w.shape for w in model.parameters()) if len(s) == 2]
    narrow = [shape for shape in shapes if narrowed(*shape, rank) < shape[0] * shape[1]]
    return 0.0 if comm.world.size == 1 else narrowing_cost(comm, narrow, rank)


def _process(settings: Settings, comm: Comm, updates: list[Update], sums: list[Sum]) -> Process:
    world = comm.world
    memory, peak = _memory(world.device)
    links = psutil.net_if_stats()
    return Process(
        rank=world.rank,
        local_rank=world.local_rank,
        host=os.uname().nodename,
        device=_device_name(world.device),
        threads=torch.get_num_threads(),
        cores=len(os.sched_getaffinity(0)),
        memory_bytes=memory,
        peak_bytes=peak,
        free_disk_bytes=shutil.disk_usage(_existing(Path(settings.run or "."))).free,
        interface=world.interface,
        nominal_mbit=links[world.interface].speed if world.interface in links else 0,
        updates=tuple(updates),
        sums=tuple(sums),
    )


def _memory(device: str) -> tuple[int, int]:
    """Return the memory there is, and the most this process has used of it."""
    if device.startswith("cuda"):
        total = torch.cuda.get_device_properties(device).total_memory
        return int(total), int(torch.cuda.max_memory_reserved(device))
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return psutil.virtual_memory().total, used


def _device_name(device: str) -> str:
    return torch.cuda.get_device_name(device) if device.startswith("cuda") else device


def _worst(comm: Comm, value: float) -> float:
    return max(row[0] for row in comm.gather([value]))
