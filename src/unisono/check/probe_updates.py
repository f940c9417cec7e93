"""What a run does, measured before it: updates, data, evaluations and checkpoints."""

import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace

import msgspec
import torch
from torch import Tensor, nn

from unisono.batching.stream import Batch, collate, longest
from unisono.comm.group import Solo
from unisono.comm.protocol import Comm, Replica, World
from unisono.comm.strategies.all_reduce import AllReduce
from unisono.comm.strategies.packed_gather import wait_for_device
from unisono.comm.strategies.threaded_replica import MOST_MODEL_LANES
from unisono.cost_model.probe_results import Gradient, Update
from unisono.models.output import loss_sums, token_losses
from unisono.models.transformer import TransformerModel
from unisono.records.events import Saved, Warned
from unisono.stopwatch import StepPart
from unisono.train.evaluation import ROWS_OF_A_STEP
from unisono.train.loop import Session
from unisono.train.process_setup import all_fit
from unisono.train.progress import Progress
from unisono.train.step import StepRequests, take_step
from unisono.translate.beam import search

ROUND_SECONDS = 1.0
MOST_REPEATS = 50
# Of a large update only this much is computed: the rest follows from its size.
SLICE_SECONDS = 3.0
DRAINED, DRAINED_SECONDS = 12, 3.0
EVALUATED, EVALUATED_SECONDS = 3, 1.0  # times, unless these take longer
ROWS, WORDS = 64, 12  # words of a translation: enough to measure the time of one
PROBED_PARTS: tuple[StepPart, ...] = ("forward", "backward", "optimizer")


@dataclass(frozen=True)
class NoExchange:
    """A strategy without any exchange: each process updates its own weights."""

    def attach(self, model: nn.Module, comm: Comm) -> Replica:
        return AllReduce().attach(model, Solo(World(device=comm.world.device)))


class ProbeUpdates:
    """Takes updates from the beginning of the corpus; its model is thrown away later."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._device = torch.device(session.parts.comm.world.device)
        self._works = session.stream.from_position(1, 0)
        self._slice = self._at_once = _at_once(session.parts.comm.world)
        self._repeats = 1
        self._step = 0
        self.batches: list[int] = []
        self.tokens: list[int] = []
        self.sentences: list[int] = []

    def close(self) -> None:
        """Stop preparing data."""
        self._works.close()  # type: ignore[attr-defined]

    def first_update(self) -> float:
        """Make an update of the longest sentences without communicating; return its seconds.

        Nothing needs more memory: weights, gradients, optimizer and the largest micro-batch.
        """
        parts, batch = self._session.parts, longest(self._session.stream)
        alone = replace(parts, comm=Solo(World(device=parts.comm.world.device)))
        work = replace(next(self._works), batches=(batch,) * self._at_once)
        self._step += 1
        began = time.perf_counter()
        take_step(alone, work, self._step, StepRequests())
        wait_for_device(parts.comm.world.device)
        return time.perf_counter() - began

    def round(self) -> Update:
        """Take some updates, as many on every process; return the mean of them."""
        parts, stopwatch = self._session.parts, self._session.parts.stopwatch
        stopwatch.lap()
        sums = dict.fromkeys((*PROBED_PARTS, "other"), 0.0)
        for _ in range(self._repeats):
            scale = self._update()
            seconds, spent = stopwatch.lap()
            for name in PROBED_PARTS:
                # The optimizer's work does not depend on how much of the update was done.
                sums[name] += spent.get(name, 0.0) * (1.0 if name == "optimizer" else scale)
            known = sum(spent.get(name, 0.0) for name in PROBED_PARTS)
            sums["other"] += max(0.0, seconds - known)
        mean = Update(**{name: total / self._repeats for name, total in sums.items()})
        slowest = max(row[0] for row in parts.comm.gather([sum(sums.values())]))
        each = slowest / self._repeats
        self._repeats = min(MOST_REPEATS, max(1, round(ROUND_SECONDS / each)))
        return mean

    def _update(self) -> float:
        """Take one update, or a part of it; return how much larger the whole one is."""
        parts = self._session.parts
        with parts.stopwatch.time("data"):
            work = next(self._works)
        self._step += 1
        self.batches.append(len(work.batches))
        self.tokens.append(work.plan.target_tokens)
        self.sentences.append(work.plan.sentences)
        done = work.batches[: self._slice]
        began = time.perf_counter()
        take_step(parts, replace(work, batches=done), self._step, StepRequests())
        each = (time.perf_counter() - began) / len(done)
        self._slice = max(self._at_once, int(SLICE_SECONDS / each))
        return _positions(work.batches) / max(1, _positions(done))

    def loader_seconds(self) -> float:
        """Return how long an update's data take while nothing else computes."""
        with closing(self._session.stream.from_position(1, 0)) as works:  # type: ignore[type-var]
            began, seconds, count = time.perf_counter(), 0.0, 0
            while count < DRAINED and seconds < DRAINED_SECONDS:
                next(works)
                count, seconds = count + 1, time.perf_counter() - began
            return seconds / count

    def gradients(self, model: TransformerModel, passes: int) -> list[Gradient]:
        """Return when in a backward pass each weight's gradient is final, in that order.

        The last of so many `passes` counts: those before it allocate the memory.
        """
        parts, weights = self._session.parts, [w for w in model.parameters() if w.requires_grad]
        batch = next(self._works).batches[0].to(self._device)
        device, times = parts.comm.world.device, {}

        def note(weight: Tensor) -> None:
            wait_for_device(device)  # a GPU has only been told to compute it
            times[weight] = time.perf_counter()

        handles = [weight.register_post_accumulate_grad_hook(note) for weight in weights]
        began = ended = 0.0
        for _ in range(passes):
            model.zero_grad()
            with parts.precision.autocast():
                loss = loss_sums(model, batch.source, batch.target_in, batch.target_out, 0.1)
            wait_for_device(device)
            began = time.perf_counter()
            loss.backward()
            wait_for_device(device)
            ended = time.perf_counter()
        for handle in handles:
            handle.remove()
        model.zero_grad()
        return [
            Gradient(
                w.numel() * w.element_size(),
                (at - began) / (ended - began),
                embedding=w is model.tied_matrix,
            )
            for w, at in sorted(times.items(), key=lambda item: item[1])
        ]

    @property
    def translates(self) -> bool:
        """Return whether a validation translates anything."""
        return self._session.evaluator.bleu or self._session.evaluator.samples > 0

    def translation_seconds(self, model: TransformerModel) -> float:
        """Return the time for what a validation translates, from the first words of a batch.

        An untrained model does not end its sentences, so this measures the time of one word and
        multiplies it by the length of the reference.
        """
        evaluator, size = self._session.evaluator, self._session.parts.comm.world.size
        valid, wanted = evaluator.valid, None if evaluator.bleu else evaluator.samples
        if not self.translates:
            return 0.0
        batches, tokens = valid.batches(wanted), valid.target_tokens
        some = batches[len(batches) // 2][:ROWS]
        words = msgspec.structs.replace(valid.decoding, max_ratio=1e-9, max_extra=WORDS)
        source = valid.batch(some).source.to(
            torch.device(self._session.parts.comm.world.device)
        )
        model.eval()
        began = time.perf_counter()
        found = search([model], source, words)
        seconds = time.perf_counter() - began
        model.train()
        steps = 1 + max(len(one.ids) for hypotheses in found for one in hypotheses)
        each = seconds / steps / (len(some) + ROWS_OF_A_STEP)
        work = sum(int(tokens[b].max()) * (len(b) + ROWS_OF_A_STEP) for b in batches)
        return each * work / size

    def evaluation_seconds(self, model: TransformerModel) -> tuple[float, float]:
        """Return the time for the losses of a validation, and for one batch of it."""
        evaluator, comm = self._session.evaluator, self._session.parts.comm
        valid, batches = evaluator.valid, evaluator.valid.batches()
        batch = collate(valid.split, batches[len(batches) // 2])
        here = batch.to(self._device)
        model.eval()
        seconds: list[float] = []
        while len(seconds) < EVALUATED and sum(seconds) < EVALUATED_SECONDS:
            began = time.perf_counter()
            with torch.inference_mode():
                token_losses(model, here.source, here.target_in, here.target_out).sum().item()
            seconds.append(time.perf_counter() - began)
        model.train()
        count = len(batches) + len(evaluator.training.batches())
        return min(seconds) * count / comm.world.size, min(seconds)


def _at_once(world: World) -> int:
    """Return how many micro-batches a process takes through the model at the same time."""
    alone_on_cpu = world.size == 1 and world.device.startswith("cpu")
    return min(MOST_MODEL_LANES, torch.get_num_threads()) if alone_on_cpu else 1


def _positions(batches: Sequence[Batch]) -> int:
    return sum(batch.source.numel() + batch.target_in.numel() for batch in batches)


# After the measuring, for an evaluation, a checkpoint and the data: with 35 s, a minute.
SPARE_SECONDS = 25.0


@dataclass(frozen=True, eq=False)
class Deadline:
    """The deadline of the rounds (`until`), by this process's clock, and of everything."""

    comm: Comm
    until: float

    @property
    def end(self) -> float:
        return self.until + SPARE_SECONDS

    def allows(self, seconds: float = 0.0) -> bool:
        """Return whether so many seconds fit, on every process. All call this together."""
        return not self.comm.any(time.perf_counter() + seconds > self.end)


@dataclass(frozen=True)
class Overhead:
    """Seconds of what a run does besides its updates, and what there was no time for."""

    loader: float = 0.0
    evaluation: float = 0.0
    translation: float = 0.0
    checkpoint: float = 0.0
    checkpoint_bytes: int = 0
    unmeasured: tuple[str, ...] = ()


def measure_overhead(
    session: Session, trial: ProbeUpdates, model: TransformerModel, deadline: Deadline
) -> Overhead:
    """Measure one of each, as long as there is time; translations are the first to be left."""
    comm, settings, unmeasured = session.parts.comm, session.settings, []
    loader = worst(comm, trial.loader_seconds())
    evaluation = one_batch = translation = 0.0
    if deadline.allows():
        all_of_it, took = all_fit(comm, settings, lambda: trial.evaluation_seconds(model))
        evaluation, one_batch = worst(comm, all_of_it), worst(comm, took)
    else:
        unmeasured.append("evaluations")
    saved, save_seconds = None, 0.0
    if deadline.allows():
        saved, save_seconds = _save(session)
    else:
        unmeasured.append("checkpoints")
    if deadline.allows(one_batch):
        took = all_fit(comm, settings, lambda: trial.translation_seconds(model))
        translation = worst(comm, took)
    elif trial.translates:
        unmeasured.append("translations")
    there = saved if isinstance(saved, Saved) else None  # else a warning
    return Overhead(
        loader=loader,
        evaluation=evaluation,
        translation=translation,
        checkpoint=save_seconds if there else 0.0,
        checkpoint_bytes=there.bytes if there else 0,
        unmeasured=tuple(unmeasured),
    )


def _save(session: Session) -> tuple[Saved | Warned, float]:
    """Save once; return what came of it, and for how long a save holds up the run.

    Updates wait for the copy. The writing goes on beside them; on a CPU it takes processor
    time from them.
    """
    comm, began = session.parts.comm, time.perf_counter()
    session.checkpoint_sync.begin_save(Progress())
    copying, used = time.perf_counter() - began, time.process_time()
    event = session.checkpoint_sync.finish_save()
    writing = time.process_time() - used if comm.world.device == "cpu" else 0.0
    return event, worst(comm, copying + writing / torch.get_num_threads())


def worst(comm: Comm, value: float) -> float:
    """Return the largest of all processes' values."""
    return max(row[0] for row in comm.gather([value]))
