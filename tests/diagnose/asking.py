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


def all_ids(run):
    return [finding.id for finding in diagnose(run, now()).findings]


def ids(run):
    # Where a link or a late process makes two machines slower than one, that is said as well.
    return [name for name in all_ids(run) if name != "more_machines"]


def the_finding(run):
    (found,) = [f for f in diagnose(run, now()).findings if f.id != "more_machines"]
    return found
