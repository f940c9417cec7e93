"""Marian, from the wheel of pymarian.

Nothing can be put behind its updates, so its own log is read, one line an update. The log
counts target words with their ends and without padding, and sentences; source tokens are
those times the mean length of the corpus.
"""

import json
import re
from pathlib import Path

from peers.peer import Start, Told, Translation, Update, Validation, threads
from peers.task import (
    BETA1,
    BETA2,
    DROPOUT,
    EPSILON,
    LABEL_SMOOTHING,
    LONGEST,
    PEAK_RATE,
    SEED,
    THREADS,
    Job,
    Texts,
)

UPDATE = re.compile(r"Ep\. \d+ : Up\. (\d+) : Sen\. ([\d,]+) .* \* ([\d,]+) ")
VALID = re.compile(r"\[valid\] Ep\. \d+ : Up\. \d+ : ce-mean-words : ([\d.]+)")


class Marian:
    """The trainer of Marian's C++ code."""

    name = "pymarian"
    package = "pymarian"
    steps = (("pymarian",),)
    note = "pre-norm; its log counts; two threads that each compute half of an update"
    ends_itself = False

    def start(self, job: Job, python: Path) -> Start:
        vocabulary = job.directory / "vocabulary.yml"
        names = ["</s>", "<unk>", *job.texts.plain_pieces()]
        table = {piece: i for i, piece in enumerate(names)}
        vocabulary.write_text(json.dumps(table, ensure_ascii=False, indent=0), "utf-8")
        command = [python, "-m", "pymarian", *_arguments(job, vocabulary)]
        reader = LogReader(job.texts)
        log = job.directory / "marian.log"
        return Start(command, log, reader.read, threads(1))

    def translate(self, job: Job, python: Path, split: str) -> Translation | None:
        return None


class LogReader:
    """Makes updates of the lines; a line comes as soon as its update is made."""

    def __init__(self, texts: Texts) -> None:
        self._texts = texts
        self._sentences = 0

    def read(self, line: str, now: float) -> Told:
        """Read one line, seen `now`."""
        if valid := VALID.search(line):
            return Validation(now, float(valid[1]))
        found = UPDATE.search(line)
        if not found:
            return None
        seen = int(found[2].replace(",", ""))
        # The count starts again with each epoch.
        sentences = seen - self._sentences if seen > self._sentences else seen
        self._sentences = seen
        words = int(found[3].replace(",", ""))
        return Update(now, words, sentences * self._texts.mean_source, sentences)


def _arguments(job: Job, vocabulary: Path) -> list[str]:
    model, texts = job.size.model, job.texts
    train, valid = texts.stem("train"), texts.stem("valid")
    validate = (
        f"--valid-sets {valid}.en {valid}.de --valid-metrics ce-mean-words "
        f"--valid-freq {job.validate_every}u --valid-mini-batch 64"
        if job.validate_every
        else ""
    )
    return f"""
        --type transformer --model {job.directory}/model.npz --log {job.directory}/marian.log
        --train-sets {train}.en {train}.de --vocabs {vocabulary} {vocabulary}
        --dim-vocabs {texts.vocabulary} {texts.vocabulary} --tied-embeddings-all
        --max-length {LONGEST} --seed {SEED} --cpu-threads {THREADS} --sync-sgd
        --workspace 1024 --mini-batch 10000 --mini-batch-words {job.tokens}
        --maxi-batch 1000 --maxi-batch-sort trg --disp-freq 1u --disp-label-counts
        --save-freq {job.save_every or 1_000_000}u --after-epochs 1000000
        --dim-emb {model.width} --transformer-dim-ffn {model.inner}
        --transformer-heads {model.heads} --enc-depth {model.encoder_layers}
        --dec-depth {model.decoder_layers} --transformer-preprocess n
        --transformer-postprocess da --transformer-postprocess-emb d
        --transformer-postprocess-top n --transformer-ffn-activation relu
        --transformer-dropout {DROPOUT} --transformer-dropout-attention {DROPOUT}
        --transformer-dropout-ffn {DROPOUT} --label-smoothing {LABEL_SMOOTHING}
        --optimizer adam --optimizer-params {BETA1} {BETA2} {EPSILON}
        --cost-type ce-sum --learn-rate {PEAK_RATE} --lr-warmup {job.warmup}
        --lr-decay-inv-sqrt {job.warmup} --clip-norm 0 {validate}
    """.split()
