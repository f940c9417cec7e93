"""`sync.strategy = "auto"`: measure for ten seconds, choose a strategy, say why, keep it."""

import time
from pathlib import Path

import msgspec

from unisono import atomic
from unisono.check.probe_run import probe
from unisono.comm.collectives import all_or_none
from unisono.comm.protocol import Comm
from unisono.comm.waiting import Notify
from unisono.config.settings import Settings
from unisono.corpus.reader import Corpus
from unisono.cost_model.exchange import Exchange, usual_phases
from unisono.cost_model.forecast import Forecast, forecast
from unisono.cost_model.scenarios import Scenario
from unisono.cost_model.step import USUAL_BUCKET_MB
from unisono.cost_model.strategies import AUTO, DEFAULT_STRATEGY, STRATEGIES, is_local
from unisono.errors import DataError
from unisono.records.events import Chose, how_often
from unisono.records.layout import RunDirectory
from unisono.small_files import read_parsed

AUTO_SECONDS = 10.0


class Choice(msgspec.Struct, frozen=True):
    """What was chosen for a run, for all its sessions.

    `phases` is 0 where the usual ones were the cheaper: on another number of machines the run
    takes those that are usual there.
    """

    strategy: str
    bits: int
    reason: str
    every: int = 1
    bucket_mb: float = USUAL_BUCKET_MB
    machines: int = 0  # it was chosen for; 0 is not known
    phases: int = 0
    format: int = 1


def settle(
    comm: Comm, settings: Settings, corpus: Corpus, tell: Notify, seconds: float = AUTO_SECONDS
) -> tuple[Settings, Choice | None]:
    """Return the settings with a strategy in place of "auto", and the choice with its reason.

    The choice of an earlier session stays. If it was made for other machines, the reason says
    so.
    """
    if settings.sync.strategy != AUTO:
        return settings, None
    machines = sum(row[0] == 0 for row in comm.gather([comm.world.local_rank]))
    told = comm.gather_bytes(all_or_none(comm, lambda: _recorded(comm, settings)))[0]
    before = msgspec.json.decode(told, type=Choice) if told else None
    if machines == 1:
        return _with(settings, Choice(DEFAULT_STRATEGY, 32, "")), _on_one_machine(before)
    if before is not None:
        kept = _still(before, machines)
        return _with(settings, kept), kept
    tell("measuring computing and network, to choose how to exchange gradients")
    found = forecast(probe(comm, settings, corpus, seconds, whole=False))
    for note in found.notes if comm.world.leads else ():
        tell(note)
    told = comm.gather_bytes(msgspec.json.encode(choose(found)))[0]
    choice = msgspec.json.decode(told, type=Choice)
    all_or_none(comm, lambda: _record(comm, settings, choice))
    return _with(settings, choice), choice


def settle_strategy(
    comm: Comm, settings: Settings, corpus: Corpus, tell: Notify
) -> tuple[Settings, Chose | None]:
    """Settle the strategy as `settle` does, and return the event that records it."""
    settled, choice = settle(comm, settings, corpus, tell)
    return settled, None if choice is None else chosen(choice)


def chosen(choice: Choice, step: int = 0) -> Chose:
    """Return the event that records a choice."""
    return Chose(
        time=time.time(),
        step=step,
        strategy=choice.strategy,
        bits=choice.bits,
        reason=choice.reason,
        every=choice.every,
        bucket_mb=choice.bucket_mb,
        phases=(choice.phases or usual_phases(choice.machines)) if choice.bits < 32 else 1,
    )


def _on_one_machine(before: Choice | None) -> Choice | None:
    """Return why a run that saved network traffic does not need to here; None if it did not."""
    if before is None or before.strategy == DEFAULT_STRATEGY:
        return None
    reason = (
        "all processes are on one machine now, so nothing needs to be compressed: updates are "
        "exact here. On several machines the run continues with "
        f"{before.strategy} in {before.bits} bits"
    )
    return Choice(DEFAULT_STRATEGY, 32, reason, bucket_mb=0.0, machines=1)


def _still(before: Choice, machines: int) -> Choice:
    """Return what was chosen, with a remark if it was for another number of machines.

    In how many phases machines sum depends on their number: others take the usual ones.
    """
    if before.machines in (0, machines):
        return msgspec.structs.replace(before, machines=machines)
    reason = (
        f"{before.reason}; chosen for {before.machines} machines, and kept on {machines}: "
        "`unisono check` says what suits these, `sync.strategy` sets it"
    )
    return msgspec.structs.replace(before, reason=reason, machines=machines, phases=0)


def choose(found: Forecast) -> Choice:
    """Return what the forecast chose for "auto", and why."""
    exact, way = found.ways[0], found.chosen
    exchange, reason = way.exchange, f"{_would(exact)} with exact gradients"
    if exchange.local:
        packed = [one for one in found.ways if _is_quantized(one.exchange)]
        best = min(packed, key=lambda one: one.update_seconds)
        reason += f", {_would(best)} with {best.exchange.name} ones"
        reason += f", {way.waiting:.0%} like this"
    elif exchange != exact.exchange:
        reason += f", {_would(way)} with {exchange.name} ones"
    price = STRATEGIES[exchange.strategy].price
    reason += f"; {price.format(bits=exchange.bits, often=how_often(exchange.every))}"
    if way.speedup <= 1:
        reason += "; one machine alone would be faster"
    usual = exchange.phases == usual_phases(way.machines)
    return Choice(
        exchange.strategy,
        exchange.bits,
        reason,
        exchange.every,
        way.bucket_mb,
        way.machines,
        0 if usual or exchange.bits == 32 else exchange.phases,
    )


def _is_quantized(exchange: Exchange) -> bool:
    return exchange.bits < 32 and not exchange.local


def _would(way: Scenario) -> str:
    return f"{way.waiting:.0%} of the time would be waiting for the network"


def _with(settings: Settings, choice: Choice) -> Settings:
    sync = settings.sync
    changes: dict[str, object] = {
        "strategy": choice.strategy,
        "bucket_mb": sync.bucket_mb or choice.bucket_mb,
        "phases": sync.phases or choice.phases,
    }
    if choice.bits < 32:
        changes["bits"] = choice.bits
    if is_local(choice.strategy):
        # Updates made together would take as long as the link that is to be spared: only a
        # rate that rises from nothing makes the beginning gentle.
        changes |= {"local_steps": choice.every, "warmup_steps": 0}
        if sync.closing_steps >= settings.train.max_steps:  # or the end is not known
            changes["closing_steps"] = 0
    return msgspec.structs.replace(settings, sync=msgspec.structs.replace(sync, **changes))


def _recorded(comm: Comm, settings: Settings) -> bytes:
    """Return what an earlier session of the run chose, on the leading process."""
    path = RunDirectory(Path(settings.run)).exchange
    if not comm.world.leads or not path.is_file():
        return b""
    fix = "remove it: the run then measures the network and chooses again"
    choice = read_parsed(path, msgspec.json.Decoder(Choice).decode, fix=fix)
    if choice.strategy not in STRATEGIES:
        raise DataError(
            f"it names the strategy {choice.strategy}, which this version does not know",
            where=str(path),
            fix="continue with the version of Unisono that wrote it, or a newer one",
        )
    return msgspec.json.encode(choice)


def _record(comm: Comm, settings: Settings, choice: Choice) -> None:
    if comm.world.leads:
        path = RunDirectory(Path(settings.run)).exchange
        atomic.write_bytes(path, msgspec.json.encode(choice))
