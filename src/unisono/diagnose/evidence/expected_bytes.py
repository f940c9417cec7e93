"""The bytes that an update has to exchange, by arithmetic."""

import msgspec

from unisono.cost_model import strategies
from unisono.cost_model.exchange import low_rank_numbers, machines_of, ring_bytes
from unisono.diagnose.case import Case
from unisono.diagnose.evidence.run_files import corpus_facts
from unisono.models.settings import TransformerSettings, matrix_shapes
from unisono.units import amount_of_bytes


def expected_bytes(case: Case) -> int:
    """Return what goes through each machine's card in one update, each way; 0 if unknown.

    Of a low-rank strategy it is the mean over the updates, of which the first are exact.
    """
    exact = ring_bytes(case.trained, case.size)
    facts = _facts(case)
    if case.size < 2 or facts.exact:
        return exact
    payload = _payload(case)
    if facts.low_rank and not payload.low_rank_numbers:
        return 0
    sent = facts.wire_bytes(payload) / case.run.last_starts[0].every
    share = _exact_share(case) if facts.low_rank else 0.0
    return round(share * exact + (1 - share) * sent)


def arithmetic(case: Case) -> str:
    """Write the formula with the numbers of this run."""
    facts, payload, total = _facts(case), _payload(case), amount_of_bytes(expected_bytes(case))
    if facts.low_rank and not payload.low_rank_numbers:
        return f"what {facts.name} sends is unknown: the sizes of the model are not recorded"
    formula = facts.arithmetic.format(
        ranks=case.size,
        times=payload.times,
        bits=payload.bits,
        parameters=case.trained,
        numbers=payload.low_rank_numbers,
        rank=_rank(case),
    )
    every = case.run.last_starts[0].every if case.run.last_starts else 1
    share = _exact_share(case) if facts.low_rank else 0.0
    formula += f" / {every} updates" * (every > 1)
    formula += f"; {share:.0%} of the updates were exact" * (share > 0)
    name = "" if facts.exact else f" ({facts.name})"
    return f"{formula} = {total} an update, each way{name}"


def _facts(case: Case) -> strategies.StrategyFacts:
    """Return those of the strategy in use; an unknown one is taken for an exact one."""
    starts = case.run.last_starts
    return (
        strategies.facts_of(starts[0].strategy) if starts else None
    ) or strategies.STRATEGIES[strategies.DEFAULT_STRATEGY]


def _payload(case: Case) -> strategies.Payload:
    starts = sorted(case.run.last_starts, key=lambda start: start.rank)
    machines = machines_of(
        [start.host for start in starts], [start.local_rank for start in starts]
    )
    # A process that left no record took part all the same.
    return strategies.Payload(
        case.trained,
        len(machines),
        case.size,
        starts[0].bits if starts else 32,
        _low_rank_numbers(case) if _facts(case).low_rank else 0,
        starts[0].phases if starts else 1,
    )


def _low_rank_numbers(case: Case) -> int:
    """Return the numbers of one update's gradient as factors of low rank; 0 if unknown."""
    facts = corpus_facts(case.run.corpus)
    if facts is None or not facts.vocabulary:
        return 0
    try:
        settings = msgspec.convert(case.run.config.get("model"), TransformerSettings)
    except msgspec.ValidationError:
        return 0
    shapes = matrix_shapes(settings, facts.vocabulary, facts.source_vocabulary)
    if case.trained < case.parameters:
        return 0  # which matrices are frozen is not looked into
    vectors = case.parameters - sum(rows * columns for rows, columns in shapes)
    if vectors < 0:
        return 0  # the settings are not those of the model that was trained
    return vectors + sum(low_rank_numbers(*shape, _rank(case)) for shape in shapes)


def _rank(case: Case) -> int:
    return int(case.setting("sync", "low_rank", 4))


def _exact_share(case: Case) -> float:
    """Return the share of the last start's updates that were exact: those of the warm-up."""
    warmup, began = case.setting("sync", "warmup_steps", 1000), case.run.last_starts[0].time
    steps = [step.step for step in case.run.steps if step.time >= began]
    return sum(step <= warmup for step in steps) / len(steps) if steps else 0.0
