"""What one machine of a run would do by itself, and all of them with another exchange."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from unisono.cost_model.cluster import INSIDE, Cluster, choices, exact_exchange, step_on
from unisono.cost_model.exchange import Exchange, Link
from unisono.cost_model.run_cost import Option, least_drastic
from unisono.cost_model.step import ComputeTimes
from unisono.cost_model.strategies import DEFAULT_STRATEGY, is_exact
from unisono.diagnose.case import Case
from unisono.diagnose.evidence.expected_bytes import expected_bytes
from unisono.diagnose.evidence.ledger import parts_of
from unisono.diagnose.evidence.link_use import link_uses, slowest

BETWEEN_PROCESSES = Link(1e9, 50e-6)  # of one machine, over its loopback
BYTES_PER_MBIT = 125_000.0
COMPUTING = ("forward", "backward", "optimizer")
PER_TOKEN = ("forward", "backward", "data", "copy")
EACH_UPDATE = ("optimizer", "recording", "other")


@dataclass(frozen=True)
class Alone:
    """The fastest machine of a run with all the tokens of an update.

    `share` is what it computes of one, in `share_seconds`. `seconds` is what an update would
    take there, `together` what it takes on all `machines`.
    """

    host: str
    machines: int
    processes: int
    share: float
    share_seconds: float
    seconds: float
    together: float

    @property
    def speedup(self) -> float:
        """Return how many times as fast all machines are as this one."""
        return self.seconds / self.together


@dataclass(frozen=True)
class Better:
    """Another exchange, and what an update would take with it."""

    exchange: Exchange
    seconds: float


def one_machine(case: Case) -> Alone | None:
    """Return what the fastest machine would do alone; None if that cannot be known."""
    means = _means(case)
    hosts = Counter(start.host for start in case.run.last_starts)
    together = case.ledger.mean_step
    if len(hosts) < 2 or len(means) < case.size or together <= 0 or not case.ledger.complete:
        return None
    found = [_alone(case, host, hosts, means) for host in hosts]
    return min(found, key=lambda one: one.seconds)


def better_exchange(case: Case, alone: Alone) -> Better | None:
    """Return the exchange to take instead of the one in use; None if none is better."""
    rate, means = _link_rate(case), list(_means(case).values())
    if rate <= 0 or not means:
        return None
    mean = {part: fmean(one[part] for one in means) for part in means[0]}
    waiting = mean["exchange"] + mean["agree"]
    rest = alone.together - waiting - sum(mean[part] for part in COMPUTING)
    forward, backward, optimizer = (mean[part] for part in COMPUTING)
    work = ComputeTimes(forward, backward, optimizer, other=max(0.0, rest), tail=_tail(case))
    workers = max(1, round(case.size / alone.machines))
    cluster = Cluster(alone.machines, workers, Link(rate))
    ways = [way for way in choices(case.trained, cluster, work) if _is_another(case, way)]
    steps = [step_on(cluster, work, way, case.trained) for way in ways]
    options = [
        Option(step.seconds, step.waiting, way.local)
        for step, way in zip(steps, ways, strict=True)
    ]
    place = least_drastic(options)
    best = Better(ways[place], steps[place].seconds)
    return best if best.seconds < alone.together else None


def _means(case: Case) -> dict[int, dict[str, float]]:
    """Return the mean seconds of each part of a usual update, by rank of the last start."""
    usual = {row.step for row in case.ledger.usual}
    found = {}
    for start in case.run.last_starts:
        steps = [parts_of(s) for s in case.run.ranks.get(start.rank, ()) if s.step in usual]
        if steps:
            found[start.rank] = {part: fmean(s[part] for s in steps) for part in steps[0]}
    return found


def _alone(
    case: Case, host: str, hosts: Counter[str], means: dict[int, dict[str, float]]
) -> Alone:
    here = [start for start in case.run.last_starts if start.host == host]
    mine = [means[start.rank] for start in here]
    share = _share(case, [start.rank for start in here])
    times = 1 / share
    forward, backward, data, copied = (times * _mean(mine, part) for part in PER_TOKEN)
    other = sum(_mean(mine, part) for part in EACH_UPDATE)
    work = ComputeTimes(forward, backward, other=data + copied + other, tail=_tail(case))
    on_cpu = here[0].device == "cpu"
    cluster = Cluster(1, len(here), Link(1.0), BETWEEN_PROCESSES if on_cpu else INSIDE)
    exchange = exact_exchange(case.trained, cluster)
    return Alone(
        host=host,
        machines=len(hosts),
        processes=len(here),
        share=share,
        share_seconds=(forward + backward) * share,
        seconds=step_on(cluster, work, exchange, case.trained).seconds,
        together=case.ledger.mean_step,
    )


def _share(case: Case, ranks: Sequence[int]) -> float:
    """Return which part of an update these ranks compute: by positions, if all are known."""
    positions = case.ledger.positions
    if len(positions) == case.size and all(positions.values()):
        return sum(positions[rank] for rank in ranks) / sum(positions.values())
    return len(ranks) / case.size


def _mean(means: Sequence[dict[str, float]], part: str) -> float:
    return fmean(one[part] for one in means)


def _tail(case: Case) -> float:
    """Return the share of the backward pass that belongs to the last micro-batch."""
    tokens = case.setting("batching", "tokens_per_update", 1.0)
    each = case.setting("batching", "tokens_per_micro_batch", tokens)
    rounds = tokens / (each * max(1, case.size)) if each > 0 else 1.0
    return 1 / max(1.0, rounds)


def _link_rate(case: Case) -> float:
    """Return the bytes a second between machines, sampled or as the exchange took; or 0."""
    use = slowest(link_uses(case))
    if use is not None and use.mbit_per_s > 0:
        return use.mbit_per_s * BYTES_PER_MBIT
    rows = case.ledger.usual
    seconds = fmean(row.wire + row.hidden for row in rows) if rows else 0.0
    return expected_bytes(case) / seconds if seconds > 0 else 0.0


def _is_another(case: Case, way: Exchange) -> bool:
    """Return whether an exchange is not the one in use."""
    start = case.run.last_starts[0]
    strategy = DEFAULT_STRATEGY if is_exact(start.strategy) else start.strategy
    return way.strategy != strategy or way.bits != start.bits
