"""All settings of a run. They come from one TOML file; `configs/` explains every line."""

from typing import Annotated, Literal

import msgspec

from unisono.batching.settings import Batching
from unisono.comm.settings import Sync
from unisono.cost_model.prices import Prices
from unisono.heartbeat.section_limits import SectionLimits
from unisono.models.settings import TransformerSettings
from unisono.monitor.worker import Monitor
from unisono.optim.settings import Adam, Optimizer
from unisono.schedules import Schedule, Transformer
from unisono.translate.settings import Decoding

Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Positive = Annotated[int, msgspec.Meta(ge=1, le=2**53)]
Share = Annotated[float, msgspec.Meta(ge=0, lt=1)]
NotNegative = Annotated[float, msgspec.Meta(ge=0)]


class StrictTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table of settings: it refuses unknown keys and never changes after loading."""


class TextPair(StrictTable, frozen=True):
    """Two text files that translate each other line by line, or one file with columns.

    `weight` is how often an epoch takes each pair; 0.5 takes half of the pairs, another half
    each time. It applies to training text only. `tag` becomes a piece of its own in front of
    every source line.
    """

    source: str = ""
    target: str = ""
    tsv: str = ""
    columns: tuple[Positive, Positive] = (1, 2)
    weight: Annotated[float, msgspec.Meta(gt=0, le=1000)] = 1.0
    tag: str = ""


class Data(StrictTable, frozen=True):
    """The raw text. Paths are relative to the directory in which the command starts."""

    source_language: str = "en"
    target_language: str = "de"
    train: list[TextPair] = []
    valid: TextPair | None = None
    test: TextPair | None = None


class CorpusSettings(StrictTable, frozen=True):
    """How raw text becomes a corpus. `tags` are known in addition to those of the sources."""

    directory: str
    vocabulary: Annotated[int, msgspec.Meta(ge=16)] = 32000
    joint: bool = True
    pieces: Literal["bpe", "unigram"] = "bpe"
    byte_fallback: bool = False
    character_coverage: Annotated[float, msgspec.Meta(ge=0.98, le=1)] = 1.0
    learning_lines: Annotated[int, msgspec.Meta(ge=1000)] = 1_000_000
    pieces_model: str = ""
    target_pieces_model: str = ""
    plain_quotes: bool = False
    lowercase: bool = False
    tags: tuple[str, ...] = ()
    invalid: Literal["fail", "drop"] = "fail"
    max_pieces: Positive = 200
    max_length_ratio: Annotated[float, msgspec.Meta(gt=1)] = 4.0
    drop_identical: bool = True
    drop_duplicates: bool = True
    drop_overlap: bool = True
    drop_wrong_script: bool = True
    drop_wrong_language: bool = False


class TrainSettings(StrictTable, frozen=True):
    """The loss, its arithmetic, and when to stop: at the first limit reached; 0 or "" is none.

    `precision` "auto" is what the devices of all processes are fastest in.

    Matrices with a row for each word use `word_rate` times the schedule's rate. If
    `show_every_steps` is 0, a log gets a line of progress every ten seconds at first and every
    five minutes later on; a terminal has a bar.
    """

    label_smoothing: Share = 0.1
    clip_norm: NotNegative = 0.0
    word_rate: Annotated[float, msgspec.Meta(gt=0, le=100)] = 1.0
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto"
    tf32: bool = False
    deterministic: bool = False
    compile: bool = False
    average: Share = 0.0
    guard: bool = True
    max_steps: Count = 0
    max_epochs: Count = 0
    max_time: str = ""
    patience: Count = 0
    show_every_steps: Count = 0


class Validation(StrictTable, frozen=True):
    """How often and how to score a run on the validation set."""

    every_steps: Positive = 1000
    bleu: bool = True
    beam: Positive = 1
    tokens_per_batch: Positive = 4096
    best: Literal["bleu", "chrf", "loss"] = "loss"
    samples: Count = 8


class Checkpoints(StrictTable, frozen=True):
    """How often to save, and how many checkpoints to keep in addition to the best one."""

    every_steps: Positive = 1000
    keep: Annotated[int, msgspec.Meta(ge=2)] = 2


Freezable = Literal["embeddings", "encoder", "decoder"]


class Start(StrictTable, frozen=True):
    """Weights to begin with: those of a run, a bundle or a Hugging Face directory; "" is none.

    What is in `freeze` stays as it was there. `old_test` names source and target of a test set
    that the weights were good at; "" takes that of the run they come from.
    """

    from_: str = msgspec.field(default="", name="from")
    freeze: tuple[Freezable, ...] = ()
    old_test: tuple[str, ...] = ()


class Settings(StrictTable, frozen=True, kw_only=True):
    """All settings of one run."""

    seed: Count = 1
    run: str = ""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    data: Data
    corpus: CorpusSettings
    start: Start = Start()
    model: TransformerSettings = TransformerSettings()
    batching: Batching = Batching()
    optimizer: Optimizer = Adam()
    schedule: Schedule = Transformer()
    sync: Sync = Sync()
    limits: SectionLimits = SectionLimits()
    monitor: Monitor = Monitor()
    train: TrainSettings = TrainSettings()
    validation: Validation = Validation()
    checkpoint: Checkpoints = Checkpoints()
    decoding: Decoding = Decoding()
    cost: Prices = Prices()
