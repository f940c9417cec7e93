"""What a run cost so far, what the money was spent on, and what one machine would have cost.

The ledger says how the run spent its time; you pay for every machine of a session from the
session's start to its end. The time between two sessions does not count: nobody recorded
whether the machines were still rented.
"""

from dataclasses import dataclass

from unisono.cost_model.prices import Prices, prices_of
from unisono.diagnose.case import Case
from unisono.diagnose.evidence.counterfactual import one_machine
from unisono.diagnose.evidence.energy import energy_of, energy_words, joules_of
from unisono.diagnose.evidence.sessions import RunSession
from unisono.diagnose.report import Alternative, Spending
from unisono.diagnose.wording import listing
from unisono.records.view import RunView
from unisono.units import duration

HOUR = 3600.0
WORTH_SAYING = 0.01  # of the time
WORTH_REMINDING = 60.0  # seconds for which machines are idle
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
    """Return what the run cost; None if no price is known, and no energy was measured."""
    prices = prices_of(case.run.config)
    used = case.joules if case.joules is not None else joules_of(case.run)
    energy = energy_of(used, prices)
    spent = spent_in(case, prices)
    if not spent.money and energy is None:
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
        sentences.append(f"The GPUs used {energy_words(energy, spent.currency)}.")
    return sentences


def spent_so_far(case: Case, whole: Case | None = None) -> str:
    """Say in one line what a run has cost until now; "" without a price.

    `whole` is a case on the whole run, whose ledger says what the money was spent on.
    """
    prices = prices_of(case.run.config)
    spent = spent_in(case, prices)
    if not spent.money:
        return ""
    now = f"{spent.money:,.2f} {prices.currency} so far, {spent.per_hour:,.2f} an hour"
    shares = _shares(whole) if whole is not None and whole.ledger.rows else {}
    parts = sorted(shares.items(), key=lambda item: -item[1])
    told = [f"{PURPOSES[n]} {spent.money * s:,.2f}" for n, s in parts if s >= WORTH_SAYING]
    return f"{now}; of it {listing(told)}" if told else now


def energy_so_far(case: Case, joules: float | None) -> str:
    """Say what the GPUs of a run have used until now; "" where nobody measured it."""
    prices = prices_of(case.run.config)
    energy = energy_of(joules, prices)
    return energy_words(energy, prices.currency) if energy is not None else ""


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
    hours = (ledger.updates * alone.seconds + pauses) / HOUR
    money = round(hours * prices.of_host(alone.host), 4)
    return Alternative(host=alone.host, hours=round(hours, 4), money=money)


def _money(spent: Spending, amount: float) -> str:
    return f"{amount:,.2f} {spent.currency}"
