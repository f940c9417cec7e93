"""The tests that all processes of a group make together: link, updates, strategies, memory.

Every process calls each function at the same time; all return the same line.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace as replace_fields
from statistics import median

import msgspec
import torch
from torch import Tensor, nn

from unisono.batching.stream import PreparedUpdate, longest
from unisono.comm.group import Solo
from unisono.comm.probes.link import sum_of
from unisono.comm.protocol import Comm, World
from unisono.comm.settings import Sync
from unisono.comm.strategies.all_reduce import AllReduce
from unisono.comm.strategies.build import strategy_of
from unisono.comm.strategies.packed_gather import wait_for_device
from unisono.config.settings import Settings
from unisono.corpus.reader import Corpus
from unisono.cost_model.devices import table_rate
from unisono.cost_model.exchange import ring_bytes
from unisono.cost_model.strategies import STRATEGIES, is_local
from unisono.models.settings import PRESETS, TransformerSettings, training_flops
from unisono.selftest.outcome import SelftestLine
from unisono.selftest.trial import UPDATES
from unisono.train.build import build_session
from unisono.train.checksums import checksums
from unisono.train.loop import Session
from unisono.train.process_setup import Signals
from unisono.train.step import StepRequests, synchronize_weights, take_step

SUM_NUMBERS = {"cpu": 2**20, "cuda": 2**24}
SUMS = 5
STRATEGY_UPDATES = 8
DELAY_CYCLES = 20_000_000  # of a GPU: about 10 ms
SAME_LOSS = {"fp32": 2e-3, "bf16": 3e-2, "fp16": 3e-2}
# The largest difference in loss between a strategy that rounds or skips and an exact one.
NEAR_LOSS = 0.10
EXACT_LOSS = 1e-4


def versions(comm: Comm) -> SelftestLine:
    """Say which device each process has; the test is that the processes found each other."""
    world, device = comm.world, comm.world.device
    mine = torch.cuda.get_device_name(device) if device != "cpu" else "CPU"
    names = [row.decode() for row in comm.gather_bytes(mine.encode())]
    nccl = ".".join(map(str, torch.cuda.nccl.version())) if device != "cpu" else ""
    backend = f"NCCL {nccl}" if nccl else "gloo"
    devices = ", ".join(f"{names.count(name)} × {name}" for name in dict.fromkeys(names))
    text = f"torch {torch.__version__}, {backend}; {world.size} processes on {devices}"
    warned = "".join(f"; {one}" for one in world.warnings)
    return SelftestLine(name="versions and devices", passed=True, text=text + warned)


def bandwidth(comm: Comm) -> SelftestLine:
    """Sum numbers over all processes, check the sum, and say how fast that was."""
    name, world = "all-reduce", comm.world
    if world.size == 1:
        return SelftestLine(name=name, passed=None, text="one process exchanges no sums")
    ones = torch.full((1000,), float(world.rank + 1), device=world.device)
    right = bool((comm.sum(ones) == sum(range(1, world.size + 1))).all())
    count = SUM_NUMBERS[torch.device(world.device).type]
    seconds = [sum_of(comm, count).seconds for _ in range(SUMS)]
    slowest = max(row[0] for row in comm.gather([median(seconds[1:])]))
    rate = ring_bytes(count, world.size) / slowest / 1e9
    over = world.fabric or world.interface
    return SelftestLine(
        name=name,
        passed=not comm.any(not right),
        text=f"{rate:.2f} GB/s on each process over {over or 'this machine'}"
        if right
        else "the sum is wrong",
        fix="suspect the hardware or its driver: they computed or transmitted wrong numbers",
        figures={"gigabytes_per_second": rate},
    )


def _train(
    settings: Settings, corpus: Corpus, comm: Comm, strategy: object, updates: int
) -> tuple[list[float], Session]:
    """Take `updates` from the first weights; return the losses and what computed them."""
    session, model = build_session(settings, corpus, comm, Signals(), strategy)  # type: ignore[arg-type]
    model.train()
    losses = []
    with closing(session.stream.from_position(1, 0)) as works:  # type: ignore[type-var]
        for step in range(1, updates + 1):
            losses.append(_step(session, next(works), step))
    return losses, session


def _step(session: Session, work: PreparedUpdate, step: int) -> float:
    return take_step(session.parts, work, step, StepRequests()).loss


def _plain(settings: Settings) -> Settings:
    """Return the settings without dropout: devices draw different random numbers."""
    none = dict.fromkeys(("dropout", "attention_dropout", "activation_dropout"), 0.0)
    return msgspec.structs.replace(
        settings, model=msgspec.structs.replace(settings.model, **none)
    )


def updates_on_device(comm: Comm, settings: Settings, corpus: Corpus) -> SelftestLine:
    """Make the same updates on the device and on the CPU, each process for itself."""
    plain, device = _plain(settings), comm.world.device
    exact = msgspec.structs.replace(
        plain, train=msgspec.structs.replace(plain.train, precision="fp32")
    )
    began = time.perf_counter()
    found, _ = _train(plain, corpus, Solo(World(device=device)), strategy_of(Sync()), UPDATES)
    seconds = time.perf_counter() - began
    wanted, _ = _train(exact, corpus, Solo(World()), AllReduce(), UPDATES)
    worst = max(abs(a - b) / b for a, b in zip(found, wanted, strict=True))
    worst = max(row[0] for row in comm.gather([worst]))
    allowed = SAME_LOSS[settings.train.precision]
    return SelftestLine(
        name=f"{UPDATES} updates on the device and on the CPU",
        passed=worst <= allowed,
        text=f"losses differ by {100 * worst:.3f} % at most ({100 * allowed:g} % allowed in "
        f"{settings.train.precision})",
        fix="device and CPU compute different results: send us the file of --json",
        figures={"worst": worst, "seconds": seconds},
    )


def strategies(comm: Comm, settings: Settings, corpus: Corpus) -> Iterator[SelftestLine]:
    """Compare every strategy with a plain sum: the loss, and the weights of all processes."""
    if comm.world.size == 1:
        yield SelftestLine(name="strategies", passed=None, text="one process exchanges nothing")
        return
    plain = _plain(settings)
    with delayed(comm):
        wanted, _ = _train(plain, corpus, comm, AllReduce(), STRATEGY_UPDATES)
        for name in STRATEGIES:  # the plain sum itself, too: a second time must give the same
            yield _strategy(name, wanted, comm, plain, corpus)


def _strategy(
    name: str, wanted: list[float], comm: Comm, settings: Settings, corpus: Corpus
) -> SelftestLine:
    sync = Sync(strategy=name, warmup_steps=2, local_steps=2, bucket_mb=0.1)
    used = msgspec.structs.replace(settings, sync=sync)
    losses, session = _train(used, corpus, comm, strategy_of(sync), STRATEGY_UPDATES)
    if is_local(name):
        synchronize_weights(session.parts)
    rows = comm.gather(_digits(session.parts.replica.module))
    alike = all(row == rows[0] for row in rows)
    allowed = EXACT_LOSS if STRATEGIES[name].exact else NEAR_LOSS
    worst = max(abs(a - b) / b for a, b in zip(losses, wanted, strict=True))
    wrong = "" if alike else "; the weights differ between processes"
    return SelftestLine(
        name=f"strategy {name}",
        passed=alike and worst <= allowed,
        text=f"losses within {100 * worst:.3f} % of a plain sum ({100 * allowed:g} % allowed)"
        + wrong,
        fix=f'do not train with `sync.strategy = "{name}"` here; send us the file of --json',
        figures={"worst": worst},
    )


def _digits(model: nn.Module) -> list[float]:
    """Return the checksums of the weights as numbers that survive a double."""
    sums = checksums([weight.detach() for weight in model.parameters()])
    return [float(part) for value in sums for part in divmod(int(value), 2**32)]


class delayed:  # noqa: N801  it reads as a statement
    """Delays the stream of every second GPU within the block, so that its peers run ahead.

    Code that reuses a buffer while an exchange still reads it then computes wrong sums.
    """

    def __init__(self, comm: Comm) -> None:
        self._late = comm.world.device != "cpu" and comm.world.rank % 2 == 1
        self._hook: Callable[[], None] | None = None

    def __enter__(self) -> None:
        if self._late:
            kept = nn.modules.module.register_module_forward_pre_hook(_hold_up)
            self._hook = kept.remove

    def __exit__(self, *_: object) -> None:
        if self._hook is not None:
            self._hook()


def _hold_up(module: nn.Module, _: tuple[Tensor, ...]) -> None:
    if isinstance(module, nn.Embedding):
        torch.cuda._sleep(DELAY_CYCLES)


def _of_real_size(settings: Settings, device: str) -> Settings:
    """Return the settings with a model that can fill a GPU, if there is one."""
    if device == "cpu":
        return settings
    batching = msgspec.structs.replace(
        settings.batching, tokens_per_update=16384, tokens_per_micro_batch=4096
    )
    model = TransformerSettings(**PRESETS["base"])
    return msgspec.structs.replace(settings, model=model, batching=batching)


def longest_micro_batch(comm: Comm, settings: Settings, corpus: Corpus) -> SelftestLine:
    """Make an update of the longest sentences; say what memory it took."""
    device = comm.world.device
    alone, settings = Solo(World(device=device)), _of_real_size(settings, device)
    session, model = build_session(settings, corpus, alone, Signals(), AllReduce())
    model.train()
    if device != "cpu":
        torch.cuda.reset_peak_memory_stats(device)
    with closing(session.stream.from_position(1, 0)) as works:  # type: ignore[type-var]
        work = replace_fields(next(works), batches=(longest(session.stream),))
        loss = _step(session, work, 1)
    fits = loss == loss
    peak = torch.cuda.max_memory_allocated(device) if device != "cpu" else 0
    said = f", {peak / 1e9:.2f} GB at the peak" if peak else ""
    tokens = settings.batching.tokens_per_micro_batch
    return SelftestLine(
        name="the longest micro-batch",
        passed=not comm.any(not fits),
        text=f"{tokens} tokens fit{said}",
        figures={"peak_bytes": float(peak)},
    )


def speed(comm: Comm, settings: Settings, corpus: Corpus) -> SelftestLine:
    """Measure the tokens per second of all processes, and compare with the table's figure."""
    settings = _of_real_size(settings, comm.world.device)
    strategy = strategy_of(settings.sync)
    session, model = build_session(settings, corpus, comm, Signals(), strategy)
    model.train()
    tokens, seconds, sentences = 0, 0.0, 0
    with closing(session.stream.from_position(1, 0)) as works:  # type: ignore[type-var]
        for step in range(1, UPDATES + 1):
            work = next(works)
            wait_for_device(comm.world.device)
            began = time.perf_counter()
            _step(session, work, step)
            wait_for_device(comm.world.device)
            if step > UPDATES // 4:  # the first ones warm up
                seconds += time.perf_counter() - began
                tokens += work.plan.target_tokens
                sentences += work.plan.sentences
    rate = tokens / max(row[0] for row in comm.gather([seconds]))
    length = tokens / sentences
    flops = training_flops(settings.model, corpus.manifest.vocabulary, 1, length, length)
    table = _table_tokens(comm, settings, flops / length)
    beside = f"; the cost model's table says {table:,.0f}" if table else ""
    return SelftestLine(
        name="speed",
        passed=True,
        text=f"{rate:,.0f} target tokens/s, {settings.model.width} wide{beside}",
        figures={"tokens_per_second": rate, "table_tokens_per_second": table},
    )


def _table_tokens(comm: Comm, settings: Settings, flops_per_token: float) -> float:
    device = comm.world.device
    name = torch.cuda.get_device_name(device) if device != "cpu" else ""
    rate = table_rate(name, settings.train.precision) if name else 0.0
    return comm.world.size * rate / flops_per_token
