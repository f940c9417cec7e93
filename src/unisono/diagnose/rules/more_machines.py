"""A second machine that does not pay."""

from dataclasses import dataclass

from unisono.cost_model.exchange import Exchange
from unisono.cost_model.run_cost import why_not
from unisono.diagnose.alone import Alone, Better, better_exchange, one_machine
from unisono.diagnose.case import Case
from unisono.diagnose.report import Finding
from unisono.diagnose.words import listing, percent
from unisono.units import duration


@dataclass(frozen=True)
class MoreMachines:
    """All machines together are slower than one of them, or hardly faster.

    What one would do is arithmetic: its own seconds for its share, times the shares there are.
    """

    least: float = 1.2
    fewest: int = 20

    def __call__(self, case: Case) -> tuple[Finding, ...]:
        if len(case.run.hosts) < 2 or len(set(case.sizes)) != 1:
            return ()
        alone = one_machine(case) if len(case.ledger.usual) >= self.fewest else None
        if alone is None or alone.speedup >= self.least:
            return ()
        better = better_exchange(case, alone)
        return (
            Finding(
                id="more_machines",
                severity="warning",
                summary=f"{_verdict(alone)}. An update takes {duration(alone.together)}; "
                f"{alone.host} alone would need about {duration(alone.seconds)} for the same "
                "tokens.",
                evidence=tuple(_evidence(case, alone)),
                advice=self._advice(alone, better),
            ),
        )

    def _advice(self, alone: Alone, better: Better | None) -> str:
        price = f"at 1/{alone.machines} of the price"
        stay = f"Train on {alone.host} alone, {price}"
        if better is None or alone.seconds / better.seconds < self.least:
            return f"{stay}, or make updates larger (`batching.tokens_per_update`)."
        times = alone.seconds / better.seconds
        return (
            f"Set {_settings(better.exchange)}: by arithmetic an update would take at best "
            f"{duration(better.seconds)}, {times:.1f} times as fast as one machine. "
            f"Otherwise: {stay[0].lower()}{stay[1:]}."
        )


def _settings(way: Exchange) -> str:
    settings = [f'`sync.strategy = "{way.strategy}"`']
    settings += [f"`sync.bits = {way.bits}`"] if way.bits < 32 else []
    settings += [f"`sync.local_steps = {way.every}`"] if way.behind else []
    return listing(settings)


def _verdict(alone: Alone) -> str:
    slower = why_not(alone.machines, alone.speedup, waiting=0.0)
    return slower or (
        f"{alone.machines} machines are hardly faster than one: {alone.speedup:.2f} times its "
        "speed"
    )


def _evidence(case: Case, alone: Alone) -> list[str]:
    shares = case.bottleneck.shares
    one = alone.processes == 1
    its = "its process computes" if one else f"its {alone.processes} processes compute"
    return [
        f"{alone.host}: {its} {percent(alone.share)} of an update in "
        f"{duration(alone.share_seconds)}",
        f"{percent(shares.network)} of the time went into the exchange, "
        f"{percent(shares.straggler)} into waiting for a late process",
    ]
