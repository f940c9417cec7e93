"""What the GPUs of a run used, by the power that was sampled."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from unisono.cost_model.prices import Prices
from unisono.diagnose.report import Energy
from unisono.records.monitor_events import MachineLog, Sampled
from unisono.records.view import RunView

JOULES_PER_KWH = 3.6e6
LONGEST_GAP = 120.0  # seconds for which one sample of the power may count


@dataclass
class PowerMeter:
    """The area under the power of each GPU of a machine; it hears one sample after the other.

    A gap between two samples counts for `LONGEST_GAP` seconds at most.
    """

    _joules: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    _watts: dict[int, float] = field(default_factory=dict)
    _time: float = 0.0
    _readings: int = 0

    def add(self, sample: Sampled) -> None:
        """Take note of a sample."""
        watts = {gpu.index: gpu.watts for gpu in sample.gpus if gpu.watts is not None}
        if not watts:
            return
        if self._readings:
            seconds = min(max(0.0, sample.time - self._time), LONGEST_GAP)
            for index in {*watts, *self._watts}:
                both = watts.get(index, 0.0) + self._watts.get(index, 0.0)
                self._joules[index] += both / 2 * seconds
        self._watts, self._time = watts, sample.time
        self._readings += 1

    def joules(self, used: Iterable[int] = ()) -> float | None:
        """Return what these GPUs used, or all if none are named; None if nobody measured it."""
        if self._readings < 2:
            return None
        return sum(self._joules[index] for index in (set(used) or self._joules))


def used_gpus(log: MachineLog) -> set[int]:
    """Return the numbers of the GPUs of a machine that the run computes on, if it says so."""
    return {index for machine in log.machines for index in machine.used}


def joules_of(run: RunView) -> float | None:
    """Return what the GPUs of a run used; None where nobody measured their power."""
    known = []
    for log in run.machines.values():
        meter = PowerMeter()
        for sample in log.samples:
            meter.add(sample)
        if (joules := meter.joules(used_gpus(log))) is not None:
            known.append(joules)
    return sum(known) if known else None


def energy_of(joules: float | None, prices: Prices) -> Energy | None:
    """Return kWh, and what they cost and emitted as far as the prices say so."""
    if joules is None:
        return None
    kwh = joules / JOULES_PER_KWH
    money, grams = kwh * prices.per_kwh, kwh * prices.grams_co2_per_kwh
    return Energy(kwh=round(kwh, 6), money=round(money, 4), co2_grams=round(grams, 2))


def energy_words(energy: Energy, currency: str) -> str:
    """Return the energy in words, such as "1.234 kWh, 0.37 EUR, 0.45 kg of CO₂"."""
    price = f", {energy.money:,.2f} {currency}" if energy.money else ""
    emitted = f", {energy.co2_grams / 1000:,.2f} kg of CO₂" if energy.co2_grams else ""
    return f"{energy.kwh:,.3f} kWh{price}{emitted}"
