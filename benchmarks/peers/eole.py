"""Eole: the successor of OpenNMT-py. Configured for this task by hand, read by our hook."""

from pathlib import Path

from peers.opennmt import write_vocabulary
from peers.peer import Start, Translation, hooked
from peers.task import (
    BEAM,
    BETA1,
    BETA2,
    DROPOUT,
    EPSILON,
    LABEL_SMOOTHING,
    PEAK_RATE,
    SEED,
    SENTENCES_AT_ONCE,
    Job,
)


class Eole:
    """`eole train` on text that is already pieces: no transforms."""

    name = "Eole"
    package = "eole"
    steps = (("torch==2.13.0", "eole", "aiohttp"),)  # which its command imports
    note = "pre-norm; one process that loads data; logging of attention entropy off"
    ends_itself = False

    def start(self, job: Job, python: Path) -> Start:
        config = job.directory / "eole.yaml"
        config.write_text(_config(job, write_vocabulary(job)))
        return hooked(python, "eole_train.py", ["train", "--config", config], job)

    def translate(self, job: Job, python: Path, split: str) -> Translation | None:
        config, result = job.directory / f"{split}.yaml", job.directory / f"{split}.out"
        config.write_text(
            f"model_path: [{job.directory / 'model'}]\nsrc: {job.texts.stem(split)}.en\n"
            f"output: {result}\nbeam_size: {BEAM}\nbatch_type: sents\n"
            f"batch_size: {SENTENCES_AT_ONCE}\ncompute_dtype: fp32\nreport_time: true\n"
        )
        program = python.with_name("eole")
        return Translation([python, program, "predict", "--config", config], result)


def _config(job: Job, vocabulary: Path) -> str:
    model, texts = job.size.model, job.texts
    # Their rate is learning_rate · width^-0.5 · min(step^-0.5, step · warmup^-1.5).
    scale = PEAK_RATE * (model.width * job.warmup) ** 0.5
    every = job.save_every or 1_000_000
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
seed: {SEED}
report_every: 10
training:
  model_path: {job.directory / "model"}
  train_steps: 1000000
  valid_steps: {job.validate_every or 1_000_000}
  valid_batch_size: 128
  save_checkpoint_steps: {every}
  keep_checkpoint: 1
  num_workers: 1
  bucket_size: 32768
  batch_type: tokens
  batch_size: {job.tokens}
  batch_size_multiple: 1
  accum_count: [1]
  normalization: tokens
  compute_dtype: fp32
  optim: adam
  adam_beta1: {BETA1}
  adam_beta2: {BETA2}
  adam_eps: {EPSILON}
  decay_method: noam
  learning_rate: {scale}
  warmup_steps: {job.warmup}
  max_grad_norm: 0
  label_smoothing: {LABEL_SMOOTHING}
  param_init_method: xavier_uniform
  dropout: [{DROPOUT}]
  attention_dropout: [{DROPOUT}]
  log_attention_entropy: false
model:
  architecture: transformer
  encoder: {{layers: {model.encoder_layers}}}
  decoder: {{layers: {model.decoder_layers}}}
  hidden_size: {model.width}
  heads: {model.heads}
  transformer_ff: {model.inner}
  add_qkvbias: true
  add_ffnbias: true
  share_embeddings: true
  share_decoder_embeddings: true
  embeddings:
    word_vec_size: {model.width}
    position_encoding_type: SinusoidalInterleaved
"""
