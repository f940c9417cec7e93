"""JoeyNMT. Its batches are not of equal length: a share of each is padding."""

from pathlib import Path

from peers.peer import Start, Translation, hooked
from peers.task import (
    BETA1,
    BETA2,
    DROPOUT,
    LABEL_SMOOTHING,
    LONGEST,
    PEAK_RATE,
    SEED,
    Job,
)

SPECIAL_PIECES = ("<unk>", "<pad>", "<s>", "</s>")


class JoeyNMT:
    """`python -m joeynmt train` on words that are our pieces."""

    name = "JoeyNMT"
    package = "joeynmt"
    steps = (("torch==2.13.0", "joeynmt", "importlib_metadata"),)
    note = (
        "pre-norm; batches by sentences, because its batches by tokens count padding, which "
        "is half of them"
    )
    ends_itself = False

    def start(self, job: Job, python: Path) -> Start:
        config, vocabulary = job.directory / "joey.yaml", job.directory / "vocabulary.txt"
        lines = (f"{piece}\n" for piece in (*SPECIAL_PIECES, *job.texts.plain_pieces()))
        vocabulary.write_text("".join(lines), encoding="utf-8")
        config.write_text(_config(job, vocabulary))
        return hooked(python, "joey_train.py", ["train", config, "--skip-test"], job)

    def translate(self, job: Job, python: Path, split: str) -> Translation | None:
        return None


def _side(job: Job, language: str, vocabulary: Path) -> str:
    return (
        f'{{lang: "{language}", max_length: {LONGEST}, lowercase: false, normalize: false, '
        f'level: "word", voc_limit: {job.texts.vocabulary}, voc_min_freq: 1, '
        f'voc_file: "{vocabulary}"}}'
    )


def _stack(job: Job, layers: int) -> str:
    model = job.size.model
    return f"""
        type: "transformer"
        num_layers: {layers}
        num_heads: {model.heads}
        hidden_size: {model.width}
        ff_size: {model.inner}
        dropout: {DROPOUT}
        layer_norm: "pre"
        embeddings: {{embedding_dim: {model.width}, scale: true, dropout: {DROPOUT}}}"""


def _config(job: Job, vocabulary: Path) -> str:
    model, texts = job.size.model, job.texts
    return f"""
name: "peer"
joeynmt_version: "2.3.0"
model_dir: "{job.directory / "model"}"
use_cuda: false
fp16: false
random_seed: {SEED}
num_workers: 0
data:
    train: "{texts.stem("train")}"
    dev: "{texts.stem("valid")}"
    test: "{texts.stem("test")}"
    dataset_type: "plain"
    src: {_side(job, "en", vocabulary)}
    trg: {_side(job, "de", vocabulary)}
testing: {{beam_size: 1, batch_size: 4096, batch_type: "token", eval_metrics: []}}
training:
    optimizer: "adam"
    adam_betas: [{BETA1}, {BETA2}]
    learning_rate: {PEAK_RATE}
    learning_rate_min: 0.0
    scheduling: "warmupinversesquareroot"
    learning_rate_warmup: {job.warmup}
    normalization: "tokens"
    label_smoothing: {LABEL_SMOOTHING}
    batch_size: {job.sentences}
    batch_type: "sentence"
    batch_multiplier: 1
    epochs: 1000000
    updates: 1000000
    validation_freq: {job.validate_every or 1_000_000}
    logging_freq: {job.validate_every or 10}
    early_stopping_metric: "loss"
    keep_best_ckpts: 1
    shuffle: true
    overwrite: true
model:
    initializer: "xavier_uniform"
    embed_initializer: "xavier_uniform"
    embed_init_gain: 1.0
    init_gain: 1.0
    bias_initializer: "zeros"
    tied_embeddings: true
    tied_softmax: true
    encoder:{_stack(job, model.encoder_layers)}
    decoder:{_stack(job, model.decoder_layers)}
"""
