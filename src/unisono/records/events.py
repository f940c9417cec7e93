"""Events: one JSON object a line, one file a process.

An event is a frozen struct. Readers skip kinds and fields they do not know, and a writer never
changes the meaning of an existing one, so old readers can follow new runs and new readers old
ones. Seconds are seconds; `time` is Unix time; losses are nats per target token.
"""

import math
import re
from collections.abc import Iterable, Iterator
from typing import Annotated, Any

import msgspec

from unisono.cost_model.strategies import is_local
from unisono.small_files import PARSER_ERRORS, reason

# A value that no run can reach is damage: readers skip the whole event.
Whole = Annotated[int, msgspec.Meta(ge=-1, le=2**53)]
# A loss may be as large as a float32.
Number = Annotated[float, msgspec.Meta(ge=-1e40, le=1e40)]
Seconds = Annotated[float, msgspec.Meta(ge=-1e11, le=1e11)]


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    """Something that happened, and when."""

    time: Seconds


class MixedSource(msgspec.Struct, frozen=True, kw_only=True):
    """A source of the training set.

    An epoch takes each of its pairs `times` times; `share` is their share of the epoch.
    """

    name: str
    pairs: Whole
    times: Number
    share: Number
    tag: str = ""


class Started(Event, frozen=True, kw_only=True, tag="started"):
    """A process joined the run. `step` is the last update already made: 0 for a new run.

    `seconds` is how long the run had trained by then. `sources` lists the sources that an epoch
    mixes, if there are several. `interface` and `address` belong to the network over which
    this process exchanges gradients; they are empty for a process alone. The `strategy` sends
    numbers of `bits` bits once in `every` updates, and gradients in buckets of `bucket_mb`; 0
    means that an older version did not record it. Of `phases`, 0 means the usual. `fabric`
    lists the InfiniBand or RoCE adapters that NCCL uses, `gpu` names its GPU, `precision` its
    arithmetic. Of all `parameters`, `trained` are not frozen; 0 means all. `start` is where the
    first weights of the run come from, `start_sha256` their hash; rank 0 alone records them.
    """

    step: Whole
    rank: Whole
    size: Annotated[int, msgspec.Meta(ge=1, le=2**31)]
    local_rank: Whole
    host: str
    pid: Whole
    device: str
    threads: Whole
    strategy: str
    parameters: Whole
    updates_per_epoch: Whole
    checkpoint: str = ""
    seconds: Seconds = 0.0
    sources: list[MixedSource] = []
    interface: str = ""
    address: str = ""
    fabric: str = ""
    gpu: str = ""
    precision: str = ""
    bits: Whole = 32
    every: Whole = 1
    bucket_mb: Number = 0.0
    phases: Whole = 1
    trained: Whole = 0
    start: str = ""
    start_sha256: str = ""


class StepTaken(Event, frozen=True, kw_only=True, tag="step"):
    """One update, as one process saw it.

    Loss, gradient norm, rate and tokens describe the whole update and are the same on all
    ranks. `seconds` is this process's wall clock from the end of the previous update to the
    end of this one, without evaluation and checkpoints. Its parts: `copy` moves batches to the
    device, `exchange` is the part of the gradient exchange that the backward pass did not hide,
    `agree` the time until all processes had reported how their step went, `recording` the time
    to record and show the previous update; the rest is "other". `hidden` is the exchange during
    the backward pass, which is not a part of its own; on GPUs, older versions wrote 0.
    `own_positions` counts the positions that this process computed, padding included. In an
    imported run, an unknown number is NaN and an unknown count is 0; the parts are unknown.
    """

    step: Whole
    epoch: Whole
    loss: Number
    gradient_norm: Number
    learning_rate: Number
    target_tokens: Whole
    source_tokens: Whole
    positions: Whole
    sentences: Whole
    seconds: Seconds
    data: Seconds = 0.0
    forward: Seconds = 0.0
    backward: Seconds = 0.0
    exchange: Seconds = 0.0
    agree: Seconds = 0.0
    optimizer: Seconds = 0.0
    skipped: bool = False
    copy: Seconds = 0.0
    recording: Seconds = 0.0
    hidden: Seconds = 0.0
    own_positions: Whole = 0


class Sample(msgspec.Struct, frozen=True):
    """One sentence of the validation set and its translation by the model."""

    source: str
    reference: str
    translation: str


class Validated(Event, frozen=True, kw_only=True, tag="validated"):
    """One pass over the validation set. `bleu` is -1 if the settings do not ask for it.

    `bleu_low` and `bleu_high` are its 95 % interval; the lengths are those that BLEU compares,
    in its tokens. `clean_training_loss` is the loss of a fixed sample of the training set,
    computed as in validation, without dropout and smoothing. Older versions did not record
    these: -1, and 0 for lengths.
    `empty` counts empty translations, `repeating` those that repeat a few words although their
    reference does not; -1 if nobody translated or counted all of them.
    Only the leading process has `samples`. `forced_bleu` is what OpenSeq2Seq prints as BLEU:
    it scores each next word that the model predicts from the reference so far, not
    translations (a model that repeats its input reaches 95); -1 means none.
    `chrf` is chrF2 of the same translations as BLEU, -1 in older events.
    """

    step: Whole
    loss: Number
    bleu: Number = -1.0
    bleu_signature: str = ""
    sentences: Whole
    target_tokens: Whole
    seconds: Seconds
    best: bool = False
    empty: Whole = 0
    samples: tuple[Sample, ...] = ()
    forced_bleu: Number = -1.0
    bleu_low: Number = -1.0
    bleu_high: Number = -1.0
    translation_length: Whole = 0
    reference_length: Whole = 0
    clean_training_loss: Number = -1.0
    repeating: Whole = -1
    chrf: Number = -1.0


class Saved(Event, frozen=True, kw_only=True, tag="saved"):
    """A checkpoint was written and verified. `files` maps its files to their bytes.

    `time` is when that was done, and `seconds` what it took. `stall` is how long training stood
    still for it: to copy the state, and to wait for the end of the writing. Older versions
    did not train meanwhile, and wrote no `stall`.
    """

    step: Whole
    name: str
    bytes: Whole
    files: dict[str, Whole]
    seconds: Seconds
    stall: Seconds = -1.0

    @property
    def stalled(self) -> float:
        """Return the seconds for which training stood still."""
        return self.stall if self.stall >= 0 else self.seconds


# What a warning says if processes no longer have the same weights.
WEIGHTS_DIFFER = "the weights differ between processes"


class Warned(Event, frozen=True, kw_only=True, tag="warned"):
    """A problem that the run survived."""

    step: Whole
    message: str


class Chose(Event, frozen=True, kw_only=True, tag="chose"):
    """The run chose how to exchange gradients (`sync.strategy = "auto"`).

    Machines with local updates synchronise weights once in `every` updates. `bucket_mb` is 0 if
    it was not chosen yet. Quantized numbers are summed in so many `phases`.
    """

    step: Whole
    strategy: str
    bits: Whole
    reason: str
    every: Whole = 1
    bucket_mb: Number = 0.0
    phases: Whole = 1

    @property
    def message(self) -> str:
        two = " and two phases" if self.phases == 2 else ""
        bits = f" in {self.bits} bits{two}" if self.bits < 32 else ""
        buckets = f", {self.bucket_mb:g} MB at a time" if self.bucket_mb else ""
        what = f"exchanges gradients{bits}{buckets}"
        if is_local(self.strategy):
            what = f"synchronises weights{bits}, {how_often(self.every)}"
        return f"{self.strategy} {what}: {self.reason}"


def how_often(every: int) -> str:
    """Return "after every update" or "once in 8 updates"."""
    return "after every update" if every == 1 else f"once in {every} updates"


class RolledBack(Event, frozen=True, kw_only=True, tag="rolled_back"):
    """The run diverged by `step` and went back to its checkpoint of `to_step`.

    From then on it multiplies the rate of the schedule by `rate_factor`. `number` counts the
    roll-backs of the run.
    """

    step: Whole
    to_step: Whole
    reason: str
    rate_factor: Number
    number: Whole

    @property
    def _place(self) -> str:
        return f"step {self.to_step:,}" if self.to_step else "the start"

    @property
    def message(self) -> str:
        return (
            f"{self.reason}: went back to {self._place}, with {self.rate_factor:g} of "
            "the learning rate and the data that follow"
        )


class Tested(Event, frozen=True, kw_only=True, tag="tested"):
    """The score of the best checkpoint on the test set.

    `bleu_low` and `bleu_high` are the 95 % interval, -1 if not recorded; the lengths are those
    that BLEU compares, in its tokens, 0 if not recorded. `empty` counts empty translations;
    older versions did not count them, nor `chrf` (-1).
    """

    step: Whole
    bleu: Number
    bleu_signature: str
    sentences: Whole
    seconds: Seconds
    bleu_low: Number = -1.0
    bleu_high: Number = -1.0
    translation_length: Whole = 0
    reference_length: Whole = 0
    empty: Whole = 0
    chrf: Number = -1.0


class Adapted(Event, frozen=True, kw_only=True, tag="adapted"):
    """How the best checkpoint and the weights that the run started from do on one test set.

    `test` is "new" (that of the corpus) or "old" (what the start was good at). `low` and `high`
    are the 95 % interval of the run's BLEU minus the start's, by paired bootstrap.
    """

    step: Whole
    test: str
    sentences: Whole
    bleu_start: Number
    bleu_run: Number
    low: Number
    high: Number
    is_chance: bool
    chrf_start: Number = -1.0
    chrf_run: Number = -1.0


class Lost(Event, frozen=True, kw_only=True, tag="lost"):
    """The run lost a process; the sidecar of process `seen_by` noticed.

    `how` is one of "process died", "process stopped", "machine or link gone" or "too slow" (a
    section took longer than its limit); `detail` says what else is known. `step` is the last
    update that the sidecar knew of.
    """

    step: Whole
    rank: Whole
    host: str
    pid: Whole
    how: str
    detail: str = ""
    seen_by: Whole = 0

    @property
    def message(self) -> str:
        detail = f" ({self.detail})" if self.detail else ""
        return f"rank {self.rank} on {self.host} (pid {self.pid}) was lost: {self.how}{detail}"


class Found(Event, frozen=True, kw_only=True, tag="found"):
    """A finding of the live diagnosis, announced once.

    `id` is that of the finding, or "bottleneck"; `about` tells two of one kind apart, such as
    the rank of a straggler. `over` means that the finding no longer holds; if it returns, the
    run announces it again.
    """

    step: Whole
    id: str
    summary: str
    about: str = ""
    advice: str = ""
    severity: str = "info"
    over: bool = False


class Ended(Event, frozen=True, kw_only=True, tag="ended"):
    """The process ended as planned.

    `reason` is one of max_steps, max_epochs, max_time, patience (finished) or signal
    (stopped, and saved). A run without this event was killed or is still running.
    """

    step: Whole
    reason: str
    seconds: Seconds


AnyEvent = (
    Started
    | StepTaken
    | Validated
    | Saved
    | Warned
    | Chose
    | RolledBack
    | Tested
    | Adapted
    | Lost
    | Found
    | Ended
)

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(AnyEvent)


def to_line(event: AnyEvent) -> bytes:
    """Return `event` as a line of JSON, without the line break."""
    return _encoder.encode(event)


def from_lines(lines: Iterable[bytes], damaged: list[str] | None = None) -> Iterator[AnyEvent]:
    """Yield the events in `lines`; skip what this version does not know.

    Add what is wrong with each damaged line to `damaged`.
    """
    for line in lines:
        try:
            yield _decoder.decode(line)
        except msgspec.ValidationError as error:
            yield from _with_nulls(line, error, damaged)
        except PARSER_ERRORS as error:
            note_damage(error, damaged)


def note_damage(error: Exception, damaged: list[str] | None) -> None:
    """Add what is wrong with a line to `damaged`, unless it is torn or of a newer version."""
    words = reason(error)  # a kill leaves half a line; an unknown kind is no damage
    if damaged is not None and not re.search("truncated|Invalid value", words):
        damaged.append(words)


def _with_nulls(line: bytes, error: Exception, damaged: list[str] | None) -> Iterator[AnyEvent]:
    # JSON turns a number that is not finite into null; no event uses null for anything else.
    try:
        table = msgspec.json.decode(line, type=dict[str, Any])
        nulls = {key for key, value in table.items() if value is None}
        # 0.5 is allowed for every number, and for no count.
        event: AnyEvent = msgspec.convert(table | dict.fromkeys(nulls, 0.5), AnyEvent)
    except PARSER_ERRORS:
        note_damage(error, damaged)
        return
    nulls &= set(event.__struct_fields__)
    yield msgspec.structs.replace(event, **dict.fromkeys(nulls, math.nan))
