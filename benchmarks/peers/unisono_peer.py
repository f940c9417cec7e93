"""Ourselves, by our own command line; read from the events every run records."""

import json
import sys
from pathlib import Path

from peers.peer import Start, Told, Translation, Update, Validation, threads
from peers.task import (
    BEAM,
    BETA1,
    BETA2,
    DROPOUT,
    EPSILON,
    LABEL_SMOOTHING,
    PEAK_RATE,
    SEED,
    THREADS,
    Job,
)


class Unisono:
    """`unisono train` alone with two threads, or `unisono launch` with a thread each."""

    package = "unisono"
    steps: tuple[tuple[str, ...], ...] = ()
    ends_itself = True

    def __init__(self, workers: int, precision: str, overrides: tuple[str, ...] = ()) -> None:
        self.workers, self._overrides = workers, (f"train.precision={precision}", *overrides)
        self.name = f"unisono {workers}×{THREADS // workers} {precision}"
        self.note = f"pre-norm; processes × threads: {workers} × {THREADS // workers}"

    def start(self, job: Job, python: Path) -> Start:
        config, run = job.directory / "unisono.toml", job.directory / "run"
        config.write_text(_config(job, run))
        sets = [word for one in self._overrides for word in ("--set", one)]
        verb = ["train"] if self.workers == 1 else ["launch", f"--workers={self.workers}"]
        command = [sys.executable, "-m", "unisono", *verb, config, *sets]
        journal = run / "events" / "rank-0000.jsonl"
        return Start(command, journal, read_event, threads(THREADS // self.workers))

    def translate(self, job: Job, python: Path, split: str) -> Translation | None:
        if self.workers > 1:
            return None  # the same program
        command = [sys.executable, "-m", "unisono", "translate", f"--beam={BEAM}"]
        return Translation(
            [*command, "--model", job.directory / "run", "--device=cpu"],
            result=job.directory / f"{split}.out",
            given=job.texts.stem(f"raw-{split}.en"),
            to_stdout=True,
        )


def read_event(line: str, _: float) -> Told:
    """Read an event as a measured update, or none."""
    event = json.loads(line)
    if event["kind"] == "step":
        return Update(
            event["time"], event["target_tokens"], event["source_tokens"], event["sentences"]
        )
    if event["kind"] == "validated":
        return Validation(event["time"], event["loss"])
    return None


def _limit(job: Job) -> str:
    return f"{job.seconds:.0f} s" if job.seconds else ""


def _config(job: Job, run: Path) -> str:
    model = job.size.model
    return f"""
seed = {SEED}
run = "{run}"
device = "cpu"
{(job.texts.directory / "corpus.toml").read_text()}
[model]
width = {model.width}
heads = {model.heads}
inner = {model.inner}
encoder_layers = {model.encoder_layers}
decoder_layers = {model.decoder_layers}
dropout = {DROPOUT}
attention_dropout = {DROPOUT}
activation_dropout = {DROPOUT}
[batching]
tokens_per_update = {job.tokens}
tokens_per_micro_batch = {job.tokens // 4}
[optimizer]
name = "adam"
beta1 = {BETA1}
beta2 = {BETA2}
epsilon = {EPSILON}
[schedule]
name = "inverse_sqrt"
peak = {PEAK_RATE}
warmup_steps = {job.warmup}
[train]
label_smoothing = {LABEL_SMOOTHING}
max_steps = 1000000
max_time = "{_limit(job)}"
[validation]
every_steps = {job.validate_every or 1_000_000}
bleu = false
[checkpoint]
every_steps = {job.save_every or 1_000_000}
"""
