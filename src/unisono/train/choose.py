"""`sync.strategy = "auto"`: measure for a moment, choose by physics, say why, stay with it."""

from pathlib import Path

import msgspec

from unisono import atomic
from unisono.comm.protocol import Comm
from unisono.comm.together import all_or_none
from unisono.comm.waiting import Tell
from unisono.config.settings import Settings
from unisono.corpus.reader import Corpus
from unisono.errors import DataError
from unisono.physics.forecast import AUTO, Forecast, Way, forecast
from unisono.records.layout import RunDirectory
from unisono.train.rehearsal import rehearse

SECONDS = 10.0
PRICES = {
    "ddp": "updates are exact",
    "compressed": "each gradient is rounded to {bits} bits a number, and what rounding drops "
    "is added to the next",
}


class Choice(msgspec.Struct, frozen=True):
    """What was chosen for a run, once and for all its sessions."""

    strategy: str
    bits: int
    reason: str
    format: int = 1


def settle(
    comm: Comm, settings: Settings, corpus: Corpus, tell: Tell
) -> tuple[Settings, Choice | None]:
    """Return the settings with a strategy in place of "auto", and what was chosen and why."""
    if settings.sync.strategy != AUTO:
        return settings, None
    exact = _with(settings, Choice("ddp", 32, ""))
    machines = sum(row[0] == 0 for row in comm.gather([comm.world.local_rank]))
    if machines == 1:
        return exact, None  # nothing leaves the machine
    told = comm.gather_bytes(all_or_none(comm, lambda: _recorded(comm, settings)))[0]
    if told:
        choice = msgspec.json.decode(told, type=Choice)
        return _with(settings, choice), choice
    tell("measuring computing and network, to choose how to exchange gradients")
    choice = choose(forecast(rehearse(comm, settings, corpus, SECONDS, whole=False)))
    all_or_none(comm, lambda: _record(comm, settings, choice))
    return _with(settings, choice), choice


def choose(found: Forecast) -> Choice:
    """Return what the forecast for "auto" came to, and why."""
    exact, way = found.ways[0], found.chosen
    name, bits = way.exchange.strategy, way.exchange.bits
    reason = f"{_would(exact)} with exact gradients"
    if way.exchange != exact.exchange:
        reason += f", {_would(way)} with {way.exchange.name} ones"
    reason += f"; {PRICES[name].format(bits=bits)}"
    if way.speedup <= 1:
        reason += "; one machine alone would be faster"
    return Choice(name, bits, reason)


def _would(way: Way) -> str:
    return f"{way.step.waiting:.0%} of a step would be waiting for the network"


def _with(settings: Settings, choice: Choice) -> Settings:
    bits = choice.bits if choice.strategy == "compressed" else settings.sync.bits
    sync = msgspec.structs.replace(
        settings.sync,
        strategy=choice.strategy,
        bits=bits,
    )
    return msgspec.structs.replace(settings, sync=sync)


def _recorded(comm: Comm, settings: Settings) -> bytes:
    """Return what an earlier session of the run chose, on the leading process."""
    path = RunDirectory(Path(settings.run)).exchange
    if not comm.world.leads or not path.is_file():
        return b""
    data = path.read_bytes()
    try:
        choice = msgspec.json.decode(data, type=Choice)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DataError(f"it cannot be read: {error}", where=str(path)) from error
    if choice.strategy not in PRICES:
        raise DataError(
            f"it names the strategy {choice.strategy}, which this version does not know",
            where=str(path),
            fix="continue with the version of Unisono that wrote it, or a newer one",
        )
    return data


def _record(comm: Comm, settings: Settings, choice: Choice) -> None:
    if comm.world.leads:
        path = RunDirectory(Path(settings.run)).exchange
        atomic.write_bytes(path, msgspec.json.encode(choice))
