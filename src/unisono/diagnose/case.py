"""A case: a run, and what all answers and rules need to know of it, worked out once.

Answers and rules read the same conclusions here (`divergence`, `overfits`, `memory_is_full` …),
so that no piece of advice contradicts another.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from statistics import median

from unisono.diagnose.bottleneck import find_bottleneck
from unisono.diagnose.evidence.curve import loss_curve
from unisono.diagnose.evidence.divergence import OverfitOnset, divergence_of, overfit_onset_of
from unisono.diagnose.evidence.ledger import Ledger, keep_ledger
from unisono.diagnose.evidence.machine_load import Load, loads_of
from unisono.diagnose.evidence.plateau import RecentGain, recent_gain_of
from unisono.diagnose.evidence.sessions import RunSession, sessions_of
from unisono.diagnose.evidence.step_arithmetic import computed_bottleneck
from unisono.diagnose.evidence.traffic import Node, nodes_of
from unisono.diagnose.report import Bottleneck
from unisono.records.view import RunView

FINISHED = ("max_steps", "max_epochs", "max_time", "patience")
# How long a run may be silent before it counts as dead: in steps and in seconds.
STEPS_OF_SILENCE = 10
LEAST_SILENCE, SILENCE_AT_START, UNSEEN_INTERRUPTION = 20.0, 600.0, 1800.0
FEWEST_TO_SEE_OVERFITTING = 3  # validations
COSTLY_EVALUATION = 0.20  # of the time


@dataclass(frozen=True)
class Case:
    """A run, the moment it is looked at (Unix time), and what follows from both.

    Where `run` has only some of the updates of a long run, `dense` has its latest ones, all of
    them, to which samples of the machines can be joined. `joules` are those that its GPUs have
    used, if somebody has counted them already.
    """

    run: RunView
    now: float
    sessions: tuple[RunSession, ...]
    ledger: Ledger
    bottleneck: Bottleneck
    dense: RunView | None = None
    joules: float | None = None

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """Return what each machine sent and received."""
        return nodes_of(self.dense or self.run)

    @cached_property
    def loads(self) -> tuple[Load, ...]:
        """Return how busy the machines were."""
        return loads_of(self.dense or self.run)

    @cached_property
    def divergence(self) -> str:
        """Return in a clause how training diverged, or "" if it did not."""
        return divergence_of(self.run)

    @cached_property
    def overfit_onset(self) -> OverfitOnset | None:
        """Return the best validation and what came after it; None for too few validations."""
        curve = loss_curve(self.run.validations)
        enough = len(curve) >= FEWEST_TO_SEE_OVERFITTING
        return overfit_onset_of(self.run, curve) if enough else None

    @property
    def overfits(self) -> bool:
        """Return whether the validation loss rises while the training loss still falls."""
        onset = self.overfit_onset
        return onset is not None and onset.is_overfitting and not self.divergence

    @cached_property
    def recent_gain(self) -> RecentGain | None:
        """Return what the last third of the run brought; None for too few validations."""
        enough = len(loss_curve(self.run.validations)) >= FEWEST_TO_SEE_OVERFITTING
        return recent_gain_of(self.run) if enough else None

    @property
    def should_stop(self) -> bool:
        """Return whether more updates do harm: the run overfits, and BLEU does not rise."""
        return self.overfits and not (self.recent_gain and self.recent_gain.bleu_rose)

    @property
    def memory_is_full(self) -> bool:
        """Return whether a machine or a GPU is nearly out of memory."""
        return any(load.is_full or any(gpu.is_full for gpu in load.gpus) for load in self.loads)

    @property
    def evaluation_is_costly(self) -> bool:
        """Return whether validation and test take a good part of the time."""
        return self.bottleneck.shares.evaluation > COSTLY_EVALUATION

    @property
    def size(self) -> int:
        """Return the number of processes of the last session."""
        return self.sessions[-1].size if self.sessions else 0

    @property
    def sizes(self) -> tuple[int, ...]:
        """Return the numbers of processes of all sessions, in the order of time."""
        return tuple(session.size for session in self.sessions)

    @property
    def trained(self) -> int:
        """Return how many parameters updates move and exchange; frozen ones do not count."""
        started = self.run.last_starts[0] if self.run.last_starts else None
        return started.trained or started.parameters if started else 0

    @property
    def parameters(self) -> int:
        """Return the number of weights of the model, or 0 if no process recorded it."""
        return self.run.last_starts[0].parameters if self.run.last_starts else 0

    def setting(self, table: str, name: str, default: float) -> float:
        """Return a number of the configuration, or `default` where it is missing."""
        section = self.run.config.get(table)
        value = section.get(name, default) if isinstance(section, dict) else default
        # Beyond this it is damage: no count and no rate is as large, nor is infinity.
        return (
            float(value) if isinstance(value, int | float) and abs(value) < 2**53 else default
        )

    @property
    def state(self) -> str:
        """Return finished, stopped, failed, running, or unknown where nothing was recorded."""
        if not self.sessions:
            return "unknown"
        reason = self.sessions[-1].reason
        if self.run.imported is not None:
            return "finished" if reason else "unknown"
        if reason:
            return "finished" if reason in FINISHED else "stopped"
        if self.run.gone:
            return "failed"
        return "running" if self.run.alive or self.silence <= self.patience else "failed"

    @property
    def silence(self) -> float:
        """Return the seconds since the last sign of life."""
        return max(0.0, self.now - self.sessions[-1].last_seen)

    @property
    def patience(self) -> float:
        """Return how long this run may be silent before it counts as dead.

        That is a few of its usual steps, and more where a validation or a checkpoint is due:
        they record nothing until they are done.
        """
        began = self.sessions[-1].began
        recent = [step for step in self.run.steps[-50:] if step.time >= began]
        if not recent:
            return SILENCE_AT_START
        usual = max(LEAST_SILENCE, STEPS_OF_SILENCE * median(step.seconds for step in recent))
        pauses = [event.seconds for event in self.run.validations]
        pauses += [event.seconds for event in self.run.saves]
        longest = max(pauses, default=0.0)
        if self._interruption_is_due(recent[-1].step):
            return usual + (3 * longest if pauses else UNSEEN_INTERRUPTION)
        return usual + longest

    def _interruption_is_due(self, step: int) -> bool:
        if int(self.setting("train", "max_steps", 0)) == step:
            return True
        every = (int(self.setting(name, "every_steps", 0)) for name in PAUSES)
        return any(steps > 0 and step % steps == 0 for steps in every)


PAUSES = ("validation", "checkpoint")


def open_case(run: RunView, now: float) -> Case:
    """Work out sessions, ledger and bottleneck of `run`."""
    sessions = sessions_of(run)
    ledger = keep_ledger(run, sessions)
    if run.imported is not None:
        return Case(run, now, sessions, ledger, computed_bottleneck(run.imported, ledger))
    return Case(run, now, sessions, ledger, find_bottleneck(ledger))


def open_sample(
    run: RunView,
    now: float,
    stands_for: Mapping[int, int],
    dense: RunView,
    joules: float | None,
) -> Case:
    """Open a case on a run of which only some updates are known, and how many each is."""
    sessions = sessions_of(run)
    ledger = keep_ledger(run, sessions, stands_for)
    return Case(run, now, sessions, ledger, find_bottleneck(ledger), dense, joules)


def open_without_ledger(run: RunView, now: float) -> Case:
    """Work out what needs no ledger: the state of `run`, its end, its cost. That is quick."""
    ledger = Ledger(rows=(), by_rank={}, wall=0.0, evaluation=0.0, checkpoint=0.0)
    return Case(run, now, sessions_of(run), ledger, find_bottleneck(ledger))
