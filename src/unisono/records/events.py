"""Events: one JSON object a line, one file a process.

An event is a frozen struct. Readers skip kinds and fields they do not know, and a writer never
changes the meaning of an existing one, so old readers can follow new runs and new readers old
ones. Seconds are seconds; `time` is Unix time; losses are nats per target token.
"""

import math
from collections.abc import Iterable, Iterator
from contextlib import suppress

import msgspec

from unisono.cost_model.strategies import is_local


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    """Something that happened, and when."""

    time: float


class MixedSource(msgspec.Struct, frozen=True, kw_only=True):
    """A source of the training set: an epoch takes each of its pairs so many `times`, and all
    of them together make this `share` of it.
    """

    name: str
    pairs: int
    times: float
    share: float
    tag: str = ""


class Started(Event, frozen=True, kw_only=True, tag="started"):
    """A process joined the run. `step` is the last update already made: 0 for a new run.

    `seconds` are those that the run had taken by then. `sources` says what an epoch is mixed
    of, if there is more than one source. `interface` and `address` are those of the network
    over which this process exchanges gradients; empty for a process alone. The `strategy`
    sends numbers of so many `bits`, once in `every` updates, and gradients in buckets of
    `bucket_mb`, which is 0 where a version did not say.
    """

    step: int
    rank: int
    size: int
    local_rank: int
    host: str
    pid: int
    device: str
    threads: int
    strategy: str
    parameters: int
    updates_per_epoch: int
    checkpoint: str = ""
    seconds: float = 0.0
    sources: list[MixedSource] = []
    interface: str = ""
    address: str = ""
    bits: int = 32
    every: int = 1
    bucket_mb: float = 0.0


class StepTaken(Event, frozen=True, kw_only=True, tag="step"):
    """One update, as one process saw it.

    Loss, gradient norm, rate and tokens are those of the whole update and the same on all
    ranks. `seconds` is this process's wall clock from the end of the last update to the end
    of this one, without evaluation and checkpoints; the parts below it are within it:
    `copy` is that of batches to the device, `exchange` the part of the gradient exchange that
    the backward pass did not hide, `agree` the time until all processes had said how their
    step went, `recording` that for writing down and showing the update before. What is left
    over is "other". `hidden` is exchange under way during the backward pass, and no part of
    its own; on GPUs, older versions wrote 0. `own_positions` are those this process computed,
    padding included. In a run that was imported, what is not known is NaN, or 0 if it is a
    count; the parts are never known.
    """

    step: int
    epoch: int
    loss: float
    gradient_norm: float
    learning_rate: float
    target_tokens: int
    source_tokens: int
    positions: int
    sentences: int
    seconds: float
    data: float = 0.0
    forward: float = 0.0
    backward: float = 0.0
    exchange: float = 0.0
    agree: float = 0.0
    optimizer: float = 0.0
    skipped: bool = False
    copy: float = 0.0
    recording: float = 0.0
    hidden: float = 0.0
    own_positions: int = 0


class Sample(msgspec.Struct, frozen=True):
    """One sentence of the validation set and what the model made of it."""

    source: str
    reference: str
    translation: str


class Validated(Event, frozen=True, kw_only=True, tag="validated"):
    """One pass over the validation set. `bleu` is -1 when it was not asked for.

    `bleu_low` and `bleu_high` are its 95 % interval; the lengths are those that BLEU compares,
    in its tokens. `clean_training_loss` is the loss of a fixed sample of the training set,
    without dropout and smoothing, as validation computes it. All of these are -1, and lengths
    0, in events of versions that did not record them.
    `empty` counts translations of nothing, `repeating` those that say a few words again and
    again, which their references do not: -1 where not all was translated, or not counted.
    Only the leading process has `samples`. `forced_bleu` is what OpenSeq2Seq prints as BLEU:
    that of the next words it would choose in the midst of the reference. It is no BLEU of
    translations (a model that repeats its input has 95), so it is kept apart; -1 is none.
    """

    step: int
    loss: float
    bleu: float = -1.0
    bleu_signature: str = ""
    sentences: int
    target_tokens: int
    seconds: float
    best: bool = False
    empty: int = 0
    samples: tuple[Sample, ...] = ()
    forced_bleu: float = -1.0
    bleu_low: float = -1.0
    bleu_high: float = -1.0
    translation_length: int = 0
    reference_length: int = 0
    clean_training_loss: float = -1.0
    repeating: int = -1


class Saved(Event, frozen=True, kw_only=True, tag="saved"):
    """A checkpoint was written and verified. `files` maps its files to their bytes."""

    step: int
    name: str
    bytes: int
    files: dict[str, int]
    seconds: float


# What a warning says if processes no longer have the same weights.
WEIGHTS_DIFFER = "the weights differ between processes"


class Warned(Event, frozen=True, kw_only=True, tag="warned"):
    """Something went wrong that the run survived."""

    step: int
    message: str


class Chose(Event, frozen=True, kw_only=True, tag="chose"):
    """How gradients are exchanged was chosen by the run itself (`sync.strategy = "auto"`).

    Weights are agreed on once in `every` updates (diloco); `bucket_mb` is 0 where a version
    chose that did not choose it.
    """

    step: int
    strategy: str
    bits: int
    reason: str
    every: int = 1
    bucket_mb: float = 0.0

    @property
    def message(self) -> str:
        """Return what was chosen, in a sentence."""
        bits = f" in {self.bits} bits" if self.bits < 32 else ""
        buckets = f", {self.bucket_mb:g} MB at a time" if self.bucket_mb else ""
        what = f"gradients are exchanged by {self.strategy}{bits}{buckets}"
        if is_local(self.strategy):
            what = f"weights are agreed on by {self.strategy}{bits}, {how_often(self.every)}"
        return f"{what}: {self.reason}"


def how_often(every: int) -> str:
    """Write what happens once in so many updates."""
    return "after every update" if every == 1 else f"once in {every} updates"


class RolledBack(Event, frozen=True, kw_only=True, tag="rolled_back"):
    """The run diverged by `step` and went back to its checkpoint of `to_step`.

    From then on the schedule's rate is multiplied by `rate_factor`. `number` counts the
    roll-backs of the run.
    """

    step: int
    to_step: int
    reason: str
    rate_factor: float
    number: int

    @property
    def _place(self) -> str:
        return f"step {self.to_step:,}" if self.to_step else "the start"

    @property
    def message(self) -> str:
        """Return what happened, in a sentence."""
        return (
            f"{self.reason}: went back to {self._place}, with {self.rate_factor:g} of "
            "the learning rate and the data that follow"
        )


class Tested(Event, frozen=True, kw_only=True, tag="tested"):
    """The best checkpoint was scored on the test set.

    `bleu_low` and `bleu_high` are the 95 % interval, -1 if it was not recorded; the lengths are
    those that BLEU compares, in its tokens, 0 if they were not recorded. `empty` is how many
    sentences were translated as nothing; older versions did not count them.
    """

    step: int
    bleu: float
    bleu_signature: str
    sentences: int
    seconds: float
    bleu_low: float = -1.0
    bleu_high: float = -1.0
    translation_length: int = 0
    reference_length: int = 0
    empty: int = 0


class Lost(Event, frozen=True, kw_only=True, tag="lost"):
    """A process of the run was lost, as the sidecar of process `seen_by` saw it.

    `how` is one of "process died", "process stopped", "machine or link gone" or "too slow" (a
    section took longer than its limit); `detail` says what more is known. `step` is the last
    update of which the sidecar had heard.
    """

    step: int
    rank: int
    host: str
    pid: int
    how: str
    detail: str = ""
    seen_by: int = 0

    @property
    def message(self) -> str:
        """Return what happened, in a sentence."""
        detail = f" ({self.detail})" if self.detail else ""
        return f"rank {self.rank} on {self.host} (pid {self.pid}) was lost: {self.how}{detail}"


class Found(Event, frozen=True, kw_only=True, tag="found"):
    """The run found something out about itself while it went on, and said so, once.

    `id` is that of a finding, or "bottleneck"; `about` tells two of one kind apart, such as
    the rank that is late. `over` says that it holds no longer: should it come back, it is said
    again.
    """

    step: int
    id: str
    summary: str
    about: str = ""
    advice: str = ""
    severity: str = "info"
    over: bool = False


class Ended(Event, frozen=True, kw_only=True, tag="ended"):
    """The process left the run in good order.

    `reason` is one of max_steps, max_epochs, max_time, patience (finished) or signal
    (stopped, and saved). A run without this event was killed, or is still going.
    """

    step: int
    reason: str
    seconds: float


AnyEvent = (
    Started
    | StepTaken
    | Validated
    | Saved
    | Warned
    | Chose
    | RolledBack
    | Tested
    | Lost
    | Found
    | Ended
)

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(AnyEvent)


def to_line(event: AnyEvent) -> bytes:
    """Return `event` as a line of JSON, without the line break."""
    return _encoder.encode(event)


def from_lines(lines: Iterable[bytes]) -> Iterator[AnyEvent]:
    """Yield the events in `lines`, passing over what this version does not know."""
    for line in lines:
        try:
            yield _decoder.decode(line)
        except msgspec.ValidationError:
            yield from _with_nulls(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue  # a torn line


def _with_nulls(line: bytes) -> Iterator[AnyEvent]:
    # JSON has no word for a number that is not finite: it is written as null, and no event
    # has any other use for null. What still does not fit is from a newer version.
    table = msgspec.json.decode(line)
    with suppress(msgspec.ValidationError, AttributeError):
        numbers = {key: math.nan if value is None else value for key, value in table.items()}
        yield msgspec.convert(numbers, AnyEvent)
