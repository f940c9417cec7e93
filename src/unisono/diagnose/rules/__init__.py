"""One file a finding: a frozen dataclass whose fields are its thresholds.

A rule looks at a case and returns what it found, usually nothing. To add one, write a file next
to these and name it below. A rule needs enough of a run to be sure: a short, healthy run has no
findings.
"""

from collections.abc import Callable

from unisono.diagnose.case import Case
from unisono.diagnose.report import Finding
from unisono.diagnose.rules.always_clipped import AlwaysClipped
from unisono.diagnose.rules.burst_credits import BurstCredits
from unisono.diagnose.rules.checkpoint_cost import CheckpointCost
from unisono.diagnose.rules.drifted_ranks import DriftedRanks
from unisono.diagnose.rules.empty_translations import EmptyTranslations
from unisono.diagnose.rules.evaluation_cost import EvaluationCost
from unisono.diagnose.rules.foreign_traffic import ForeignTraffic
from unisono.diagnose.rules.input_bound import InputBound
from unisono.diagnose.rules.latency_bound import LatencyBound
from unisono.diagnose.rules.loss_spike import LossSpike
from unisono.diagnose.rules.lost_ranks import LostRanks
from unisono.diagnose.rules.memory import Memory
from unisono.diagnose.rules.missing_ranks import MissingRanks
from unisono.diagnose.rules.more_machines import MoreMachines
from unisono.diagnose.rules.oversubscribed import Oversubscribed
from unisono.diagnose.rules.padding import Padding
from unisono.diagnose.rules.repeating_translations import RepeatingTranslations
from unisono.diagnose.rules.short_translations import ShortTranslations
from unisono.diagnose.rules.skipped_steps import SkippedSteps
from unisono.diagnose.rules.slow_direction import SlowDirection
from unisono.diagnose.rules.stolen_time import StolenTime
from unisono.diagnose.rules.straggler import Straggler
from unisono.diagnose.rules.test_overlap import TestOverlap
from unisono.diagnose.rules.warnings import Warnings
from unisono.diagnose.rules.wrong_interface import WrongInterface

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
    "memory": Memory(),
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
