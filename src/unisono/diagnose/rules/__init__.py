"""One file a finding: a frozen dataclass whose fields are its thresholds.

A rule looks at a case and returns what it found, usually nothing. To add one, write a file next
to these and name it below. A rule needs enough of a run to be sure: a short, healthy run has no
findings.
"""

from collections.abc import Callable

from unisono.diagnose.case import Case
from unisono.diagnose.report import Finding
from unisono.diagnose.rules.cores import MemoryPressure, Oversubscribed, StolenTime
from unisono.diagnose.rules.link import (
    BurstCredits,
    ForeignTraffic,
    SlowDirection,
    WrongInterface,
)
from unisono.diagnose.rules.overhead import CheckpointCost, EvaluationCost, InputBound
from unisono.diagnose.rules.ranks import DriftedRanks, LostRanks, MissingRanks
from unisono.diagnose.rules.scaling import LatencyBound, MoreMachines
from unisono.diagnose.rules.straggler import Straggler
from unisono.diagnose.rules.test_overlap import TestOverlap
from unisono.diagnose.rules.translations import (
    EmptyTranslations,
    RepeatingTranslations,
    ShortTranslations,
)
from unisono.diagnose.rules.updates import AlwaysClipped, LossSpike, Padding, SkippedSteps
from unisono.diagnose.rules.warnings import Warnings

RULES: dict[str, Callable[[Case], tuple[Finding, ...]]] = {
    "missing_ranks": MissingRanks(),
    "lost_ranks": LostRanks(),
    "drifted_ranks": DriftedRanks(),
    "skipped_steps": SkippedSteps(),
    "loss_spike": LossSpike(),
    "straggler": Straggler(),
    "slow_direction": SlowDirection(),
    "burst_credits": BurstCredits(),
    "latency_bound": LatencyBound(),
    "foreign_traffic": ForeignTraffic(),
    "wrong_interface": WrongInterface(),
    "more_machines": MoreMachines(),
    "stolen_time": StolenTime(),
    "memory": MemoryPressure(),
    "oversubscribed": Oversubscribed(),
    "input_bound": InputBound(),
    "evaluation_cost": EvaluationCost(),
    "checkpoint_cost": CheckpointCost(),
    "padding": Padding(),
    "always_clipped": AlwaysClipped(),
    "empty_translations": EmptyTranslations(),
    "short_translations": ShortTranslations(),
    "repeating_translations": RepeatingTranslations(),
    "test_overlap": TestOverlap(),
    "warnings": Warnings(),
}
