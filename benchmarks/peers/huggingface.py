"""Hugging Face transformers: the Marian architecture from a configuration, Seq2SeqTrainer.

There is no command to start: `inside/transformers_train.py` is the script that a user of the
library would write.
"""

import json
from pathlib import Path

from peers import task
from peers.peer import INSIDE, Start, Translation, hooked
from peers.task import Job


class Transformers:
    """`Seq2SeqTrainer`, with sentences of roughly the same length together."""

    name = "transformers"
    package = "transformers"
    steps = (("torch==2.13.0", "transformers", "accelerate", "numpy"),)
    note = "post-norm, which is all that MarianMT knows; relu; group_by_length"
    ends_itself = False

    def start(self, job: Job, python: Path) -> Start:
        model, path = job.size.model, job.directory / "task.json"
        path.write_text(
            json.dumps(
                {
                    "train": str(job.texts.stem("train")),
                    "valid": str(job.texts.stem("valid")),
                    "pieces": str(job.texts.pieces),
                    "output": str(job.directory / "model"),
                    "sentences": job.sentences,
                    "validate_every": job.validate_every,
                    "save_every": job.save_every,
                    "model": {name: getattr(model, name) for name in model.__struct_fields__},
                    "rate": task.PEAK_RATE,
                    "warmup": job.warmup,
                    "betas": [task.BETA1, task.BETA2],
                    "epsilon": task.EPSILON,
                    "dropout": task.DROPOUT,
                    "smoothing": task.LABEL_SMOOTHING,
                    "longest": task.LONGEST,
                    "seed": task.SEED,
                }
            )
        )
        return hooked(python, "transformers_train.py", [path], job)

    def translate(self, job: Job, python: Path, split: str) -> Translation | None:
        result = job.directory / f"{split}.out"
        checkpoints = (job.directory / "model").glob("checkpoint-*")
        newest = max(checkpoints, default=Path("none"), key=lambda path: path.stat().st_mtime)
        script = INSIDE / "transformers_translate.py"
        files = newest, job.texts.pieces, f"{job.texts.stem(split)}.en", result
        sizes = str(task.BEAM), str(task.SENTENCES_AT_ONCE)
        return Translation([python, script, *files, *sizes], result)
