"""What a run cost so far, what the money was spent on, and what one machine would have cost.

The ledger says how the run spent its time; you pay for every machine of a session from the
session's start to its end. The time between two sessions does not count: nobody recorded
whether the machines were still rented.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from unisono.cost_model.prices import Prices, prices_of
from unisono.diagnose.case import Case
from unisono.diagnose.evidence.counterfactual import one_machine
from unisono.diagnose.evidence.sessions import RunSession
from unisono.diagnose.report import Alternative, Energy, Shares, Spending
from unisono.diagnose.wording import listing, percent
from unisono.records.monitor_events import MachineLog
from unisono.records.view import RunView
from unisono.units import duration

HOUR = 3600.0
WATT_HOURS_PER_KWH = 1000.0
WORTH_SAYING = 0.01  # of the time
WORTH_REMINDING = 60.0  # seconds for which machines are idle
LONGEST_GAP = 120.0  # seconds for which one sample of the power may count
PURPOSES = {
    "compute": "computing",
    "network": "waiting for the network",
    "straggler": "waiting for stragglers",
    "data": "waiting for data",
    "evaluation": "validation and test",
    "checkpoint": "checkpoints",
    "undone": "updates undone by crashes",
    "starting": "starting up",
    "other": "everything else",
}


def spending_of(case: Case) -> Spending | None:
    """Return what the run cost; None if its settings name no price."""
    prices = prices_of(case.run.config)
    energy = _energy(case.run, prices)
    spent = spent_in(case, prices)
    if not spent.money and (energy is None or not (energy.money or energy.co2_grams)):
        return None
    return Spending(
        currency=prices.currency,
        money=round(spent.money, 4),
        per_hour=round(spent.per_hour, 4),
        machine_hours=round(spent.machine_hours, 4),
        purposes={name: round(spent.money * share, 4) for name, share in _shares(case).items()},
        energy=energy,
        one_machine=_alone(case, prices) if spent.money else None,
    )


def spending_words(spent: Spending) -> list[str]:
    """Say in a few sentences what the run cost and what the money was spent on."""
    sentences = []
    if spent.money:
        parts = sorted(spent.purposes.items(), key=lambda item: -item[1])
        told = [f"{PURPOSES[name]} {amount:,.2f}" for name, amount in parts if amount >= 0.005]
        hours = duration(spent.machine_hours * HOUR)
        of_it = f"; of it {listing(told)}" if told else ""
        sentences.append(f"{_money(spent, spent.money)} for {hours} of machines{of_it}.")
    if (alone := spent.one_machine) is not None:
        sentences.append(
            f"{alone.host} alone would have needed about {duration(alone.hours * HOUR)} for "
            f"the same updates: {_money(spent, alone.money)}."
        )
    if (energy := spent.energy) is not None:
        price = f", {_money(spent, energy.money)}" if energy.money else ""
        emitted = f", {energy.co2_grams / 1000:,.2f} kg of CO₂" if energy.co2_grams else ""
        sentences.append(f"The GPUs used {energy.kwh:,.3f} kWh{price}{emitted}.")
    return sentences


def spent_so_far(case: Case, recent: Shares | None) -> str:
    """Say in one line what a run has cost until now; "" without a price.

    `recent` are the shares of the latest updates: `watch` does not keep the times of older
    ones.
    """
    prices = prices_of(case.run.config)
    spent = spent_in(case, prices)
    if not spent.money:
        return ""
    now = f"{spent.money:,.2f} {prices.currency} so far, {spent.per_hour:,.2f} an hour"
    shares = {name: getattr(recent, name, 0.0) for name in PURPOSES}
    told = [f"{PURPOSES[name]} {percent(s)}" for name, s in shares.items() if s >= WORTH_SAYING]
    return f"{now}; lately {listing(told)}" if told else now


def idle_words(case: Case) -> str:
    """Say what the machines of a run that is over have cost since then; "" without a price.

    Only who has just reached the machines knows that they are still rented.
    """
    if not case.sessions or case.state == "running":
        return ""
    prices, last = prices_of(case.run.config), case.sessions[-1]
    hosts = hosts_of(case.run, last)
    per_hour, idle = prices.of_hosts(hosts), max(0.0, case.now - last.last_seen)
    if not per_hour:
        return ""
    names, are = listing(list(hosts)), "stand" if len(hosts) > 1 else "stands"
    if idle < WORTH_REMINDING:
        return f"{names} now {are} idle, for {per_hour:,.2f} {prices.currency} an hour"
    have, money = ("have" if len(hosts) > 1 else "has"), per_hour * idle / HOUR
    return (
        f"{names} {have} been idle for {duration(idle)}: {money:,.2f} {prices.currency} so far"
    )


@dataclass(frozen=True)
class Rented:
    """What all sessions of a run cost, in money and hours of machines."""

    money: float
    per_hour: float
    machine_hours: float


def spent_in(case: Case, prices: Prices) -> Rented:
    """Return what the machines of all sessions cost; `per_hour` is that of the last one."""
    hosts = [hosts_of(case.run, session) for session in case.sessions]
    hours = [session.seconds / HOUR for session in case.sessions]
    hourly = [prices.of_hosts(each) for each in hosts]
    return Rented(
        money=sum(price * time for price, time in zip(hourly, hours, strict=True)),
        per_hour=hourly[-1] if hourly else 0.0,
        machine_hours=sum(len(each) * time for each, time in zip(hosts, hours, strict=True)),
    )


def hosts_of(run: RunView, session: RunSession) -> tuple[str, ...]:
    """Return the machines of a session. Clocks differ, so a start belongs to the nearest."""
    began = sorted(start.time for start in run.starts if start.rank == 0)
    if not began:
        return ()
    nearest = [
        start.host
        for start in run.starts
        if min(began, key=lambda time: abs(time - start.time)) == session.began
    ]
    return tuple(dict.fromkeys(nearest))


def _shares(case: Case) -> dict[str, float]:
    """Return the share of the time for each purpose; they add up to 1."""
    ledger = case.ledger
    seconds = {**ledger.seconds, "undone": ledger.undone, "starting": ledger.starting}
    seconds["other"] = max(0.0, ledger.wall - sum(seconds.values()))
    total = sum(seconds.values()) or 1.0
    return {name: seconds[name] / total for name in PURPOSES}


def _alone(case: Case, prices: Prices) -> Alternative | None:
    """Return what one machine would have cost up to the same step; None if that is unknown."""
    alone = one_machine(case)
    if alone is None:
        return None
    ledger = case.ledger
    pauses = ledger.evaluation + ledger.checkpoint + ledger.starting + ledger.ending
    hours = (len(ledger.rows) * alone.seconds + pauses) / HOUR
    money = round(hours * prices.of_host(alone.host), 4)
    return Alternative(host=alone.host, hours=round(hours, 4), money=money)


def _energy(run: RunView, prices: Prices) -> Energy | None:
    """Return what the GPUs of the run used; None where nobody measured their power."""
    used = [joules for log in run.machines.values() if (joules := _joules(log)) is not None]
    if not used:
        return None
    kwh = sum(used) / HOUR / WATT_HOURS_PER_KWH
    money, grams = kwh * prices.per_kwh, kwh * prices.grams_co2_per_kwh
    return Energy(kwh=round(kwh, 6), money=round(money, 4), co2_grams=round(grams, 2))


def _joules(log: MachineLog) -> float | None:
    used = {index for machine in log.machines for index in machine.used}
    power = [
        (sample.time, sum(g.watts or 0.0 for g in sample.gpus if not used or g.index in used))
        for sample in log.samples
        if any(gpu.watts is not None for gpu in sample.gpus)
    ]
    return _integral(power) if len(power) > 1 else None


def _integral(power: Sequence[tuple[float, float]]) -> float:
    """Return the area under the curve; a gap counts for `LONGEST_GAP` seconds at most."""
    return sum(
        (before + after) / 2 * min(max(0.0, until - since), LONGEST_GAP)
        for (since, before), (until, after) in pairwise(power)
    )


def _money(spent: Spending, amount: float) -> str:
    return f"{amount:,.2f} {spent.currency}"
