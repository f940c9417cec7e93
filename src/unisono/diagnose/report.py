"""The eleven questions, and what a diagnosis says.

The structs are the JSON of `report.json`, format 1, as they stand.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

FORMAT = 1
MOST_STEPS = 8  # told of one finding


class Struct(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the report; nothing changes after it was found out."""


class Shares(Struct, frozen=True, kw_only=True):
    """Where the wall clock of all starts went. The shares add up to 1."""

    compute: float = 0.0
    network: float = 0.0
    straggler: float = 0.0
    data: float = 0.0
    evaluation: float = 0.0
    checkpoint: float = 0.0
    other: float = 0.0


class Bottleneck(Struct, frozen=True, kw_only=True):
    """The cause whose removal would save the most time.

    `culprit` is the rank that was late, when one rank was. `without_it_seconds_per_step` is
    null when there is nothing to take away: the cause is compute, or nothing was measured.
    Only an imported run has `measured`, which is false: there the cause is `unknown`, or
    follows from arithmetic.
    """

    cause: str
    share: float
    shares: Shares
    culprit: int | None = None
    without_it_seconds_per_step: float | None = None
    measured: bool | msgspec.UnsetType = msgspec.UNSET


class Answer(Struct, frozen=True, kw_only=True):
    """One of the eleven questions, answered for this run."""

    id: str
    question: str
    verdict: str
    summary: str
    values: dict[str, Any]
    evidence: tuple[str, ...] = ()
    advice: str = ""


class Finding(Struct, frozen=True, kw_only=True):
    """Something a rule noticed. `severity` is info, warning or error.

    Only a finding about certain updates has `steps`: these, or the first of many. `about` is
    the rank or machine that it concerns, where there can be several of one kind.
    """

    id: str
    severity: str
    summary: str
    evidence: tuple[str, ...] = ()
    advice: str = ""
    steps: tuple[int, ...] | msgspec.UnsetType = msgspec.UNSET
    about: str | msgspec.UnsetType = msgspec.UNSET


class Energy(Struct, frozen=True, kw_only=True):
    """What the GPUs of a run used, by the power that was sampled; 0 where no price is known."""

    kwh: float
    money: float = 0.0
    co2_grams: float = 0.0


class Alternative(Struct, frozen=True, kw_only=True):
    """What the fastest machine alone would have cost for the same updates, by arithmetic."""

    host: str
    hours: float
    money: float


class Spending(Struct, frozen=True, kw_only=True):
    """What the run cost: `purposes` split `money`; `per_hour` is that of the last start."""

    currency: str
    money: float
    per_hour: float
    machine_hours: float
    purposes: dict[str, float]
    energy: Energy | None = None
    one_machine: Alternative | None = None


class ScoreChange(Struct, frozen=True, kw_only=True):
    """BLEU and chrF of the start and of the run on one test set; the 95 % interval is that of
    the difference of BLEU.
    """

    sentences: int
    bleu_start: float
    bleu_run: float
    difference: float
    low: float
    high: float
    is_chance: bool
    chrf_start: float
    chrf_run: float


class Adaptation(Struct, frozen=True, kw_only=True):
    """What a run that started from other weights gained and forgot.

    `verdict` is gained, outweighed (it forgot more than it gained), no_gain or unknown.
    """

    start: str
    sha256: str
    trained_share: float
    verdict: str
    gain: ScoreChange | None = None
    forgotten: ScoreChange | None = None


class Report(Struct, frozen=True, kw_only=True):
    """Everything a diagnosis found out about a run.

    `note` is the small print to the headline: signature and interval of BLEU, if something
    was scored. `cost` is there if the settings name a price or energy was measured,
    `adaptation` if the run started from other weights.
    """

    format: int = FORMAT
    run: str
    headline: str
    bottleneck: Bottleneck
    answers: tuple[Answer, ...]
    findings: tuple[Finding, ...]
    note: str | msgspec.UnsetType = msgspec.UNSET
    cost: Spending | msgspec.UnsetType = msgspec.UNSET
    adaptation: Adaptation | msgspec.UnsetType = msgspec.UNSET

    def answer(self, name: str) -> Answer:
        return next(answer for answer in self.answers if answer.id == name)


QUESTIONS = {
    "duration": "How long did the run take, and how long will it still take?",
    "trained": "Is the model fully trained? How can you tell?",
    "overfitting": "Is it overfitting? Since when?",
    "devices": "Were the devices fully used: doing arithmetic, not waiting?",
    "network": "What was the network doing? Was it the bottleneck?",
    "learning_rate": "What does the learning-rate curve show, and why?",
    "training_set": "How big is the training set, before and after cleaning?",
    "checkpoint_files": "Which files is a checkpoint made of, and what is in each?",
    "checkpoint_size": "How big is a checkpoint, and why?",
    "step_time": "How long does an average step take, and what is it made of?",
    "step_vs_network": "How does step time vary with network use between the nodes?",
}


def reply(
    name: str,
    verdict: str,
    summary: str,
    *,
    values: dict[str, Any] | None = None,
    evidence: list[str] | None = None,
    advice: str = "",
) -> Answer:
    """Answer the question `name`."""
    return Answer(
        id=name,
        question=QUESTIONS[name],
        verdict=verdict,
        summary=summary,
        values=values or {},
        evidence=tuple(evidence or ()),
        advice=advice,
    )


def finding(
    name: str,
    summary: str,
    *evidence: str,
    advice: str = "",
    severity: str = "warning",
    steps: Iterable[int] | None = None,
    about: str | None = None,
) -> tuple[Finding, ...]:
    """Return one finding with the id `name`, as a rule returns it."""
    return (
        Finding(
            id=name,
            severity=severity,
            summary=summary,
            evidence=evidence,
            advice=advice,
            steps=msgspec.UNSET if steps is None else tuple(steps),
            about=msgspec.UNSET if about is None else about,
        ),
    )
