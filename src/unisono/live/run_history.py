"""A whole run in few records, however long it takes: what the answers about it need.

Of every process it keeps the first update of each start, the last before the next one, and
every so many between. Each stands for those since the one before it, so sums over the run
come out right, and means and quantiles do as those of a sample.
"""

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from unisono.diagnose.case import Case, open_sample
from unisono.diagnose.evidence.energy import PowerMeter, used_gpus
from unisono.records.events import AnyEvent, RolledBack, Saved, Started, StepTaken, Validated
from unisono.records.monitor_events import Sampled
from unisono.records.view import RunView

MOST_UPDATES, FEWEST_UPDATES = 400, 100  # that are kept of each process
MOST_KEPT_RECORDS = 6400  # of all processes


@dataclass
class ProcessHistory:
    """The updates of a process that are kept. `firsts` begin a start, `lasts` end one."""

    kept: list[StepTaken] = field(default_factory=list)
    firsts: set[int] = field(default_factory=set)
    lasts: set[int] = field(default_factory=set)
    latest: StepTaken | None = None
    begins: bool = True

    def add(self, update: StepTaken, every: int) -> None:
        """Take note of an update. Those that the process makes again are undone."""
        self.undo(update.step - 1)
        self.latest = update
        if self.begins:
            self.firsts.add(update.step)
        if self.begins or update.step % every == 0:
            self.kept.append(update)
        self.begins = False

    def begin(self, step: int) -> None:
        """Take note of a start that goes on after `step`."""
        self.undo(step)
        self.kept = list(self.updates)
        if self.latest is not None:
            self.lasts.add(self.latest.step)
        self.begins = True

    def undo(self, step: int) -> None:
        """Forget the updates after `step`."""
        while self.kept and self.kept[-1].step > step:
            gone = self.kept.pop().step
            self.firsts.discard(gone)
            self.lasts.discard(gone)
        if self.latest is not None and self.latest.step > step:
            self.latest = self.kept[-1] if self.kept else None

    def thin(self, every: int) -> None:
        """Keep every so many updates only."""
        edges = self.firsts | self.lasts
        self.kept = [u for u in self.kept if u.step % every == 0 or u.step in edges]

    @property
    def updates(self) -> tuple[StepTaken, ...]:
        """Return what is kept, and the latest update."""
        if self.latest is None or (self.kept and self.kept[-1] is self.latest):
            return tuple(self.kept)
        return (*self.kept, self.latest)

    def stand_for(self) -> Iterator[tuple[int, int]]:
        """Yield each of these updates, and how many it stands for."""
        updates, before = self.updates, 0
        for place, update in enumerate(updates):
            until = update.step
            if place + 1 < len(updates) and updates[place + 1].step in self.firsts:
                until = updates[place + 1].step - 1
            yield update.step, max(1, until - before)
            before = until


@dataclass
class RunHistory:
    """Hears all events of a `Follower`, and knows what the run was like as a whole.

    An update that is kept stands for about `every` of them, never fewer than `least`, which is
    the stride of the follower.
    """

    least: int = 1
    every: int = 1
    _most: int = MOST_UPDATES
    _ranks: dict[int, ProcessHistory] = field(
        default_factory=lambda: defaultdict(ProcessHistory)
    )
    _meters: dict[int, PowerMeter] = field(default_factory=lambda: defaultdict(PowerMeter))
    _spent: float = 0.0  # seconds of the leading process on what can be undone
    _spent_at_saves: list[tuple[int, float]] = field(default_factory=list)
    _undone: float = 0.0

    def forget(self, rank: int) -> None:
        """Begin with a process anew."""
        self._ranks.pop(rank, None)
        if rank == 0:
            self._spent, self._undone, self.every = 0.0, 0.0, self.least
            self._spent_at_saves.clear()

    def hear(self, rank: int, event: AnyEvent) -> None:
        """Take note of an event of a process."""
        if rank == 0:
            self._account(event)
        if isinstance(event, StepTaken):
            self._ranks[rank].add(event, self.every)
        elif isinstance(event, Started):
            self._ranks[rank].begin(event.step)

    def forget_samples(self, rank: int) -> None:
        """Begin with a machine anew."""
        self._meters.pop(rank, None)

    def hear_sample(self, rank: int, sample: Sampled) -> None:
        """Take note of a sample of a machine."""
        self._meters[rank].add(sample)

    def joules(self, run: RunView) -> float | None:
        """Return what the GPUs of the run used; None where nobody measured their power."""
        told = [self._meters[rank].joules(used_gpus(log)) for rank, log in run.machines.items()]
        known = [joules for joules in told if joules is not None]
        return sum(known) if known else None

    def case(self, run: RunView, now: float) -> Case:
        """Open a case on the whole run, of which `run` has the latest updates and samples."""
        ranks = {rank: one.updates for rank, one in self._ranks.items() if one.updates}
        whole = replace(run, ranks=ranks, undone=self._undone)
        stands_for = dict(self._ranks[0].stand_for())
        return open_sample(whole, now, stands_for, dense=run, joules=self.joules(run))

    def _account(self, event: AnyEvent) -> None:
        """Count the seconds of what a crash or a roll-back undoes."""
        if isinstance(event, StepTaken | Validated | Saved):
            self._spent += event.seconds if math.isfinite(event.seconds) else 0.0
        if isinstance(event, StepTaken):
            self._thin()
        elif isinstance(event, Saved):
            self._spent_at_saves.append((event.step, self._spent))
        elif isinstance(event, Started):
            self._most = max(
                FEWEST_UPDATES, min(MOST_UPDATES, MOST_KEPT_RECORDS // max(1, event.size))
            )
            self._go_back(event.step)
        elif isinstance(event, RolledBack):
            self._go_back(event.to_step)
            self._ranks[0].undo(event.to_step)

    def _go_back(self, step: int) -> None:
        latest = self._ranks[0].latest
        if step and latest is not None and latest.step == step:
            return  # nothing is undone
        saves = self._spent_at_saves
        while saves and saves[-1][0] > step:
            saves.pop()
        stands = saves[-1][1] if saves and step else 0.0
        self._undone += self._spent - stands
        self._spent = stands

    def _thin(self) -> None:
        leader = self._ranks[0]
        while len(leader.kept) - len(leader.firsts) - len(leader.lasts) > self._most:
            self.every *= 2
            for one in self._ranks.values():
                one.thin(self.every)
