"""How tests ask a question about a run."""

from diagnose.made_runs import (
    CONFIG,
    now,
)
from unisono.diagnose.diagnosis import diagnose


def answer(run, name, at=None):
    return diagnose(run, now() if at is None else at).answer(name)


def verdict(run, name, at=None):
    return answer(run, name, at).verdict


def settings(table, **changes):
    return {**CONFIG, table: {**CONFIG[table], **changes}}
