"""The probes of `check`: the real work and the real network, measured in about a minute.

They measure computing and network in turns, because shared machines are not equally fast all
the time. They exchange no gradients and leave nothing on the disk. At the end every process
has the same results, so all come to one forecast and one exit code.
"""

import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import msgspec

from unisono.check import probe_updates
from unisono.check.inventory import describe_process, existing_part
from unisono.comm.collectives import all_or_none
from unisono.comm.probes.compression import CompressionProbe, low_rank_cost, outer_cost
from unisono.comm.probes.link import latency, one_way_rates, sum_of, sustained
from unisono.comm.protocol import Comm, Strategy, World
from unisono.comm.strategies.ddp import Ddp
from unisono.comm.waiting import Notify, no_notice
from unisono.config.settings import Settings
from unisono.corpus.reader import Corpus, open_corpus
from unisono.cost_model import probe_results
from unisono.cost_model.exchange import low_rank_numbers
from unisono.cost_model.strategies import AUTO
from unisono.models.transformer import TransformerModel
from unisono.train import process_setup
from unisono.train.build import build_session
from unisono.train.loop import Session
from unisono.train.micro_batches import settle_micro_batches
from unisono.train.precision import set_tf32
from unisono.train.preconditions import (
    check_consistency,
    check_preconditions,
    settle_precision,
    updates_of,
)
from unisono.train.run_lock import check_corpus_matches
from unisono.train.supervision import process_group

CHECK_SECONDS = 35.0
PATIENCE_SECONDS = 60.0
FEWEST_ROUNDS = 4
WARM_UPS = 2
# If rounds take so long that the fewest do not fit into the time, two are enough.
LATE_SECONDS, FEWEST_IF_LATE = 15.0, 2
REST_SECONDS = 5.0  # kept for what follows, besides a pass or two through the model
PASSES = 3
SUM_SECONDS = 0.5
FIRST_SUM_BYTES = 1 << 20
PAIRS_SHARE = 0.25  # of the time, for the rates between pairs of machines
STREAM_SHARE = 0.15  # of the time, for a steady stream that shows whether a rate lasts
FLOAT = 4


def run_probe(
    settings: Settings, seconds: float = CHECK_SECONDS, tell: Notify = no_notice
) -> tuple[probe_results.ProbeResults, World]:
    """Probe alone or with the processes started with this one; return its world as well."""
    with process_group(settings, PATIENCE_SECONDS, tell) as comm:
        began = time.perf_counter()
        corpus = all_or_none(
            comm, lambda: open_corpus(Path(settings.corpus.directory), verify=True)
        )
        check_consistency(comm, settings, corpus)
        settings = settle_precision(comm, settings)
        settings = settle_micro_batches(comm, settings)
        check_preconditions(comm, settings, corpus)
        all_or_none(comm, lambda: check_corpus_matches(settings, corpus))
        set_tf32(settings.train.tf32, comm.world.device)
        process_setup.choose_gpu_kernels(
            comm.world.device, deterministic=settings.train.deterministic
        )
        return probe(comm, settings, corpus, seconds, tell, began=began), comm.world


def probe(
    comm: Comm,
    settings: Settings,
    corpus: Corpus,
    seconds: float = CHECK_SECONDS,
    tell: Notify = no_notice,
    *,
    whole: bool = True,
    began: float = 0.0,
) -> probe_results.ProbeResults:
    """Return what the run of `settings` would do with the processes of `comm`.

    If not `whole`, only updates and their exchange are measured. Whatever does not fit within
    SPARE_SECONDS after `seconds` is left out or shortened. The time counts from when this
    process `began`, by its clock, or from now.
    """
    began = began or time.perf_counter()
    deadline = probe_updates.Deadline(comm, began + seconds)
    process_setup.keep_freed_memory()
    with (
        _scratch(settings, comm) as directory,
        process_setup.explain_oom(settings, comm.world.device),
    ):
        aside = msgspec.structs.replace(settings, run=directory)
        strategy: Strategy = Ddp() if comm.world.size == 1 else probe_updates.NoExchange()
        session, model = build_session(aside, corpus, comm, process_setup.Signals(), strategy)
        with closing(probe_updates.ProbeUpdates(session)) as trial:
            measured = _measure(session, trial, model, deadline, seconds, tell, whole=whole)
        mine = describe_process(settings, comm, *measured.turns)
    told = comm.gather_bytes(msgspec.json.encode(mine))
    found = msgspec.structs.replace(
        measured.found,
        processes=tuple(msgspec.json.decode(row, type=probe_results.Process) for row in told),
        seconds=time.perf_counter() - began,
    )
    # Shares and clocks differ, but the forecast must be the same on every process.
    first = comm.gather_bytes(msgspec.json.encode(found) if comm.world.leads else b"")[0]
    return msgspec.json.decode(first, type=probe_results.ProbeResults)


@dataclass(frozen=True)
class _Own:
    """The results that all processes share, and this process's own rounds."""

    found: probe_results.ProbeResults
    turns: tuple[list[probe_results.Update], list[probe_results.Sum]]


def _measure(
    session: Session,
    trial: probe_updates.ProbeUpdates,
    model: TransformerModel,
    deadline: probe_updates.Deadline,
    seconds: float,
    tell: Notify,
    *,
    whole: bool,
) -> _Own:
    comm, settings = session.parts.comm, session.settings
    several = comm.world.size > 1
    each = probe_updates.worst(comm, process_setup.all_fit(comm, settings, trial.first_update))
    tell("measuring the network, then computing and network in turns")
    network = _network(comm, seconds)
    packing = CompressionProbe(comm)
    outer = outer_cost(comm) if several else 0.0
    narrowing = _narrowing(comm, model, settings.sync.low_rank) if whole else 0.0
    rest = REST_SECONDS + each if whole else 0.0
    passes = _passes(deadline, each, rest) if several else 0
    gradients = _gradients(session, trial, model, passes) if passes else []
    turns = _turns(comm, trial, packing, deadline, rest, _sizes(model, network.pairs))
    beside = probe_updates.Overhead()
    if whole:
        tell("measuring an evaluation, a checkpoint and the data")
        beside = probe_updates.measure_overhead(session, trial, model, deadline)
    unasked = ["when each gradient is ready"] if several and not passes else []
    found = probe_results.ProbeResults(
        job=_job(settings, session, trial, model, gradients),
        processes=(),
        pairs=tuple(network.pairs),
        pulses=tuple(network.pulses),
        latency=network.ping,
        packings=tuple(packing.costs()),
        outer_seconds=outer,
        narrowing_seconds=narrowing,
        loader_seconds=beside.loader,
        evaluation_seconds=beside.evaluation + beside.translation,
        translation_seconds=beside.translation,
        checkpoint_seconds=beside.checkpoint,
        checkpoint_bytes=beside.checkpoint_bytes,
        unmeasured=(*network.unmeasured, *unasked, *beside.unmeasured),
    )
    return _Own(found, turns)


def _scratch(settings: Settings, comm: Comm) -> "tempfile.TemporaryDirectory[str]":
    """Return a directory on the disk of the run, which is gone when the block ends."""
    where = existing_part(Path(settings.run or "."))
    return all_or_none(
        comm, lambda: tempfile.TemporaryDirectory(dir=where, prefix=".unisono-check-")
    )


@dataclass(frozen=True)
class _Network:
    pairs: Sequence[probe_results.OneWay]
    pulses: Sequence[float]
    ping: float
    unmeasured: tuple[str, ...] = ()


def _network(comm: Comm, seconds: float) -> _Network:
    firsts = [int(row[0]) for row in comm.gather([comm.world.local_rank])]
    machines = [rank for rank, local in enumerate(firsts) if local == 0]
    if len(machines) < 2:
        return _Network([], [], latency(comm))
    pairs = one_way_rates(comm, machines, seconds * PAIRS_SHARE)
    slowest = min(pair.rate for pair in pairs)
    missing = len(machines) * (len(machines) - 1) - len(pairs)
    unmeasured = (f"{missing} rates between machines",) if missing else ()
    pulses = sustained(comm, machines, slowest, seconds * STREAM_SHARE)
    return _Network(pairs, pulses, latency(comm), unmeasured)


def _passes(deadline: probe_updates.Deadline, each: float, rest: float) -> int:
    """Return how many passes to time gradients in; one takes `each` seconds."""
    if deadline.allows((PASSES + WARM_UPS + FEWEST_ROUNDS) * each + rest):
        return PASSES
    # Half the rest is enough: this matters more than the translations.
    return 1 if deadline.allows((1 + FEWEST_IF_LATE) * each + rest / 2) else 0


def _gradients(
    session: Session, trial: probe_updates.ProbeUpdates, model: TransformerModel, passes: int
) -> list[probe_results.Gradient]:
    """Return the leading process's gradients: DDP fills its buckets by those."""
    comm = session.parts.comm
    mine = process_setup.all_fit(comm, session.settings, lambda: trial.gradients(model, passes))
    return msgspec.json.decode(
        comm.gather_bytes(msgspec.json.encode(mine))[0], type=list[probe_results.Gradient]
    )


def trained_numbers(model: TransformerModel) -> int:
    """Return how many numbers of the model are not frozen: updates move and exchange these."""
    return sum(weight.numel() for weight in model.parameters() if weight.requires_grad)


def _sizes(model: TransformerModel, pairs: Sequence[probe_results.OneWay]) -> tuple[int, int]:
    """Return the bytes of a first sum, which must not take long, and the most there may be."""
    most = trained_numbers(model) * FLOAT
    known = [FIRST_SUM_BYTES, most, *(int(pair.rate * SUM_SECONDS) for pair in pairs)]
    return max(FLOAT, min(known)), most


def _turns(
    comm: Comm,
    trial: probe_updates.ProbeUpdates,
    packing: CompressionProbe,
    deadline: probe_updates.Deadline,
    rest: float,
    sizes: tuple[int, int],
) -> tuple[list[probe_results.Update], list[probe_results.Sum]]:
    """Compute, exchange and pack in turns until time is up; return the first two by round.

    It makes two rounds at least, and begins none that would leave less than `rest` seconds.
    """
    size, most = sizes
    updates, sums = [], []
    for number in range(10_000):
        began = time.perf_counter()
        updates.append(trial.round())
        packing.once()
        sums.append(sum_of(comm, size // FLOAT))
        slowest = probe_updates.worst(comm, sums[-1].seconds)
        size = int(min(most, max(FLOAT, size * SUM_SECONDS / max(slowest, 1e-6))))
        now = time.perf_counter()
        limit = deadline.until
        if number < WARM_UPS + FEWEST_ROUNDS:
            limit += LATE_SECONDS
        over = number >= FEWEST_IF_LATE and now > limit
        too_late = 2 * now - began + rest > deadline.end
        if comm.any(over or too_late) and number + 1 >= FEWEST_IF_LATE:
            break
    first = min(WARM_UPS, len(updates) - FEWEST_IF_LATE)
    return updates[first:], sums[first:]


def _job(
    settings: Settings,
    session: Session,
    trial: probe_updates.ProbeUpdates,
    model: TransformerModel,
    gradients: list[probe_results.Gradient],
) -> probe_results.TrainingJob:
    limits, sync = settings.train, settings.sync
    updates = updates_of(settings, session.stream)
    # The closing updates are those before `max_steps`, whatever ends the run before.
    closing = sync.closing_steps if sync.closing_steps < limits.max_steps else 0
    count = len(trial.tokens)
    return probe_results.TrainingJob(
        parameters=trained_numbers(model),
        tokens_per_update=sum(trial.tokens) / count,
        sentences_per_update=sum(trial.sentences) / count,
        updates=updates,
        evaluation_every=settings.validation.every_steps,
        checkpoint_every=settings.checkpoint.every_steps,
        tail=count / sum(trial.batches),
        bucket_mb=sync.bucket_mb,
        strategy=sync.strategy,
        bits=sync.bits,
        phases=sync.phases,
        local_steps=sync.local_steps,
        warmup_steps=0 if sync.strategy == AUTO else sync.warmup_steps,
        closing_steps=max(0, closing - (limits.max_steps - updates)),
        averages=limits.average > 0,
        low_rank_numbers=_low_rank_numbers(model, sync.low_rank),
        outer_momentum=sync.outer_momentum > 0,
        gradients=tuple(gradients),
    )


def _low_rank_numbers(model: TransformerModel, rank: int) -> int:
    """Return how many numbers PowerSGD sends of a gradient."""
    shapes = [weight.shape for weight in model.parameters() if weight.requires_grad]
    return sum(low_rank_numbers(*s, rank) if len(s) == 2 else s.numel() for s in shapes)


def _narrowing(comm: Comm, model: TransformerModel, rank: int) -> float:
    """Return the seconds that PowerSGD computes in an update."""
    trained = (weight.shape for weight in model.parameters() if weight.requires_grad)
    shapes = [(shape[0], shape[1]) for shape in trained if len(shape) == 2]
    narrow = [shape for shape in shapes if low_rank_numbers(*shape, rank) < shape[0] * shape[1]]
    return 0.0 if comm.world.size == 1 else low_rank_cost(comm, narrow, rank)
