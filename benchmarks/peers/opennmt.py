"""OpenNMT-py.

The newest release asks for a torch older than any that runs beside the other peers; it
works with this one, so it is installed without its dependencies, and those that training
imports by hand. Its own statistics count real target tokens; so does our hook.
"""

from pathlib import Path

from peers.peer import INSIDE, Start, Translation, hooked
from peers.task import (
    BEAM,
    BETA1,
    BETA2,
    DROPOUT,
    LABEL_SMOOTHING,
    LONGEST,
    PEAK_RATE,
    SEED,
    SENTENCES_AT_ONCE,
    Job,
)


class OpenNMT:
    """`onmt_train` on text that is already pieces: no transforms."""

    name = "OpenNMT-py"
    package = "OpenNMT-py"
    steps = (
        (
            *("torch==2.13.0", "configargparse", "tensorboard", "flask", "waitress", "pyyaml"),
            *("pyonmttok>=1.37,<2", "sacrebleu", "rapidfuzz", "pyahocorasick", "six"),
            "sentencepiece",
        ),
        ("--no-deps", "OpenNMT-py==3.5.1"),
    )
    note = "pre-norm; one process that loads data"
    ends_itself = False

    def start(self, job: Job, python: Path) -> Start:
        config = job.directory / "onmt.yaml"
        config.write_text(_config(job, write_vocabulary(job)))
        return hooked(python, "onmt_train.py", ["-config", config], job)

    def translate(self, job: Job, python: Path, split: str) -> Translation | None:
        result, newest = job.directory / f"{split}.out", _newest(job.directory)
        arguments = f"""
            -model {newest} -src {job.texts.stem(split)}.en -output {result} -gpu -1
            -beam_size {BEAM} -batch_type sents -batch_size {SENTENCES_AT_ONCE}
        """.split()
        return Translation([python, INSIDE / "onmt_translate.py", *arguments], result)


def _newest(directory: Path) -> Path:
    found = directory.glob("model_step_*.pt")
    return max(found, default=Path("none"), key=lambda path: path.stat().st_mtime)


def write_vocabulary(job: Job) -> Path:
    """Write the pieces as Eole, too, reads them: with a count, which nobody looks at."""
    path = job.directory / "vocabulary.txt"
    lines = (f"{piece}\t1\n" for piece in job.texts.plain_pieces())
    path.write_text("".join(lines), encoding="utf-8")
    return path


def _config(job: Job, vocabulary: Path) -> str:
    model, texts = job.size.model, job.texts
    # Their rate is learning_rate · width^-0.5 · min(step^-0.5, step · warmup^-1.5).
    scale = PEAK_RATE * (model.width * job.warmup) ** 0.5
    return f"""
data:
  corpus_1: {{path_src: {texts.stem("train")}.en, path_tgt: {texts.stem("train")}.de}}
  valid: {{path_src: {texts.stem("valid")}.en, path_tgt: {texts.stem("valid")}.de}}
src_vocab: {vocabulary}
tgt_vocab: {vocabulary}
share_vocab: true
src_vocab_size: {texts.vocabulary}
tgt_vocab_size: {texts.vocabulary}
vocab_size_multiple: 8
src_seq_length: {LONGEST}
tgt_seq_length: {LONGEST}
save_model: {job.directory / "model"}
seed: {SEED}
train_steps: 1000000
valid_steps: {job.validate_every or 1_000_000}
valid_batch_size: 128
save_checkpoint_steps: {job.save_every or 1_000_000}
keep_checkpoint: 1
report_every: 10
num_workers: 1
bucket_size: 32768
batch_type: tokens
batch_size: {job.tokens}
batch_size_multiple: 1
accum_count: [1]
normalization: tokens
model_dtype: fp32
optim: adam
adam_beta1: {BETA1}
adam_beta2: {BETA2}
decay_method: noam
learning_rate: {scale}
warmup_steps: {job.warmup}
max_grad_norm: 0
label_smoothing: {LABEL_SMOOTHING}
param_init: 0
param_init_glorot: true
encoder_type: transformer
decoder_type: transformer
position_encoding: true
enc_layers: {model.encoder_layers}
dec_layers: {model.decoder_layers}
heads: {model.heads}
hidden_size: {model.width}
word_vec_size: {model.width}
transformer_ff: {model.inner}
dropout: [{DROPOUT}]
attention_dropout: [{DROPOUT}]
share_decoder_embeddings: true
share_embeddings: true
"""
