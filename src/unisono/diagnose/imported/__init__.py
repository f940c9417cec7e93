"""Runs of other trainers: what their records say, what arithmetic adds, what stays unknown."""

from collections.abc import Callable

from unisono.diagnose.case import Case
from unisono.diagnose.imported.facts import (
    answer_checkpoint_files,
    answer_checkpoint_size,
    answer_duration,
    answer_learning_rate,
    answer_overfitting,
    answer_step_time,
    answer_trained,
    answer_training_set,
)
from unisono.diagnose.imported.network import (
    answer_devices,
    answer_network,
    answer_step_vs_network,
)
from unisono.diagnose.imported.source import findings as findings
from unisono.diagnose.imported.source import imported_headline as imported_headline
from unisono.diagnose.report import Answer

IMPORTED_ANSWERS: dict[str, Callable[[Case], Answer]] = {
    "duration": answer_duration,
    "trained": answer_trained,
    "overfitting": answer_overfitting,
    "devices": answer_devices,
    "network": answer_network,
    "learning_rate": answer_learning_rate,
    "training_set": answer_training_set,
    "checkpoint_files": answer_checkpoint_files,
    "checkpoint_size": answer_checkpoint_size,
    "step_time": answer_step_time,
    "step_vs_network": answer_step_vs_network,
}
