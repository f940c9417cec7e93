"""The rules: each looks at a run and returns its findings, usually none.

To add a finding:

1. Write one class, in the file below whose subject it shares: a frozen dataclass whose fields
   are its thresholds, and whose `__call__(case)` returns what `finding` makes, or ().
2. Add one entry to `RULES`. Its name is the id of the finding; the order is that of the report.

A rule takes its facts from `case` and `diagnose.evidence`, and reads no files. It must be sure:
a short, healthy run has no findings. Advice must not oppose that of an answer or another rule
(`tests/diagnose/test_advice.py`), so it asks the case first: `case.should_stop`,
`case.memory_is_full`, `case.evaluation_is_costly`.
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
from unisono.diagnose.rules.processes import (
    DamagedFiles,
    DriftedRanks,
    LostRanks,
    MissingRanks,
    Straggler,
    Warnings,
)
from unisono.diagnose.rules.scaling import LatencyBound, MoreMachines
from unisono.diagnose.rules.translations import (
    EmptyTranslations,
    RepeatingTranslations,
    ShortTranslations,
    TestOverlap,
)
from unisono.diagnose.rules.updates import AlwaysClipped, LossSpike, Padding, SkippedSteps

RULES: dict[str, Callable[[Case], tuple[Finding, ...]]] = {
    "damaged_files": DamagedFiles(),
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
