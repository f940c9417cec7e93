"""One file a question. The order is the order of the report."""

from collections.abc import Callable

from unisono.diagnose.answers.checkpoint import answer_checkpoint_files, answer_checkpoint_size
from unisono.diagnose.answers.devices import answer_devices
from unisono.diagnose.answers.duration import answer_duration
from unisono.diagnose.answers.learning_rate import answer_learning_rate
from unisono.diagnose.answers.network import answer_network
from unisono.diagnose.answers.overfitting import answer_overfitting
from unisono.diagnose.answers.step_time import answer_step_time, answer_step_vs_network
from unisono.diagnose.answers.trained import answer_trained
from unisono.diagnose.answers.training_set import answer_training_set
from unisono.diagnose.case import Case
from unisono.diagnose.report import Answer

ANSWERS: dict[str, Callable[[Case], Answer]] = {
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
