"""The numbers of a run at one moment, as series with names, labels and values."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from unisono.live.machines import MachineNow
from unisono.live.window import CurrentState, RankTimes
from unisono.records.view import RunView

STATES = ("running", "finished", "stopped", "failed")
# Every name, with the line that explains it. Units are those of the name.
HELP = {
    "state": "1 for the state of the run, 0 for all others",
    "step": "Updates made",
    "steps_planned": "Updates that the run will make; 0 if nothing limits them",
    "last_step_timestamp_seconds": "When the last update ended, as Unix time",
    "step_seconds": "Mean duration of the last updates",
    "seconds_left": "Time until the last update, at the present speed",
    "tokens_per_second": "Target tokens a second of the last updates",
    "training_loss": "Loss of the last update, nats a target token",
    "learning_rate": "Rate of the last update",
    "validation_loss": "Loss of the last validation, nats a target token",
    "validation_bleu": "BLEU of the last validation",
    "validation_chrf": "chrF of the last validation",
    "test_bleu": "BLEU of the best checkpoint on the test set",
    "time_share": "Share of the time of the last updates, by what it went into",
    "process_time_share": "Share of the time of one process, by what it went into",
    "finding": "1 for each finding that holds now",
    "lost_processes": "Processes that the run has lost",
    "machine_cpu_share": "Share of the time for which the cores of a machine are busy",
    "machine_memory_share": "Share of the memory of a machine that is in use",
    "machine_sent_bytes_per_second": "What the network interface of a machine sends",
    "machine_received_bytes_per_second": "What the network interface of a machine receives",
    "machine_sample_age_seconds": "Time since the last sample of a machine",
    "gpu_utilisation_share": "Share of the time for which a GPU computes",
    "gpu_power_watts": "Power of a GPU",
    "gpu_memory_used_bytes": "Memory of a GPU in use",
    "gpu_temperature_celsius": "Temperature of a GPU",
    "gpu_ecc_errors": "Uncorrected errors of the memory of a GPU",
}


@dataclass(frozen=True)
class RunSeries:
    """One number: its name, its labels, its value."""

    name: str
    value: float
    labels: dict[str, str] = field(default_factory=dict)


def series_of(view: RunView, now: CurrentState) -> list[RunSeries]:
    """Return all that is known of a run at the moment; what is unknown is left out."""
    series = [
        *_progress(view, now),
        *_scores(view),
        *(part for lane in now.lanes for part in _process(lane)),
        *(part for machine in now.machines for part in _machine(machine)),
    ]
    if now.bottleneck:
        shares = now.bottleneck.shares
        causes = type(shares).__struct_fields__
        series += [RunSeries("time_share", getattr(shares, c), {"cause": c}) for c in causes]
    for finding in now.findings:
        about = finding.about or ""
        labels = {"id": finding.id, "about": about, "severity": finding.severity}
        series.append(RunSeries("finding", 1.0, labels))
    return series


def _progress(view: RunView, now: CurrentState) -> Iterator[RunSeries]:
    for state in STATES:
        yield RunSeries("state", float(now.state == state), {"state": state})
    yield RunSeries("step", now.step)
    yield RunSeries("steps_planned", now.updates)
    yield RunSeries("lost_processes", len(view.losses))
    if now.seconds_left is not None:
        yield RunSeries("seconds_left", now.seconds_left)
    if view.steps:
        last = view.steps[-1]
        yield RunSeries("last_step_timestamp_seconds", last.time)
        yield RunSeries("step_seconds", now.seconds_per_step)
        yield RunSeries("tokens_per_second", now.tokens_per_second)
        yield RunSeries("training_loss", last.loss)
        yield RunSeries("learning_rate", last.learning_rate)


def _scores(view: RunView) -> Iterator[RunSeries]:
    if view.validations:
        last = view.validations[-1]
        yield RunSeries("validation_loss", last.loss)
        if last.bleu >= 0:
            yield RunSeries("validation_bleu", last.bleu)
        if last.chrf >= 0:
            yield RunSeries("validation_chrf", last.chrf)
    if view.tests:
        yield RunSeries("test_bleu", view.tests[-1].bleu)


def _process(lane: RankTimes) -> Iterator[RunSeries]:
    for cause, share in lane.shares.items():
        labels = {"rank": str(lane.rank), "host": lane.host, "cause": cause}
        yield RunSeries("process_time_share", share, labels)


def _machine(machine: MachineNow) -> Iterator[RunSeries]:
    here = {"host": machine.host}
    card = {**here, "interface": machine.interface}
    yield RunSeries("machine_cpu_share", machine.cores, here)
    yield RunSeries("machine_memory_share", machine.memory, here)
    yield RunSeries("machine_sample_age_seconds", machine.silent, here)
    if machine.interface:
        yield RunSeries("machine_sent_bytes_per_second", machine.sent, card)
        yield RunSeries("machine_received_bytes_per_second", machine.received, card)
    for gpu in machine.gpus:
        known = {
            "gpu_utilisation_share": gpu.utilisation,
            "gpu_power_watts": gpu.watts,
            "gpu_memory_used_bytes": gpu.memory_used,
            "gpu_temperature_celsius": gpu.celsius,
            "gpu_ecc_errors": gpu.ecc_errors,
        }
        for name, value in known.items():
            if value is not None:
                yield RunSeries(name, value, {**here, "gpu": str(gpu.index)})
