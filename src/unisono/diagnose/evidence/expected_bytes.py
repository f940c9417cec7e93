"""What an update has to exchange, by arithmetic."""

import msgspec

from unisono.cost_model.exchange import (
    gathered,
    machines_of,
    narrowed,
    packed_bytes,
    parties,
    ring_bytes,
)
from unisono.diagnose.case import Case
from unisono.diagnose.evidence.corpus_facts import corpus_facts
from unisono.models.settings import TransformerSettings, matrix_shapes
from unisono.units import amount_of_bytes

NARROW = "powersgd"


def expected_bytes(case: Case) -> int:
    """Return what goes through each machine's card in one update, each way; 0 if unknown.

    With the processes of a machine side by side in the ring, it is what each of them sends.
    Packed numbers of a machine are sent by one of its processes.
    """
    if not case.run.last_starts:
        return ring_bytes(case.parameters, case.size)
    start = case.run.last_starts[0]
    if case.size < 2:
        return 0
    if start.strategy == NARROW:
        return _narrow_bytes(case)
    if start.bits == 32:
        return ring_bytes(case.parameters, case.size)
    message = packed_bytes(case.parameters, start.bits)
    return round(gathered(message, _parties(case)) / start.every)


def _parties(case: Case) -> int:
    starts = sorted(case.run.last_starts, key=lambda start: start.rank)
    machines = machines_of(
        [start.host for start in starts], [start.local_rank for start in starts]
    )
    # Who left no record was there all the same.
    return case.size if len(machines) == 1 else parties(machines)


def arithmetic(case: Case) -> str:
    """Write the formula with the numbers of this run."""
    ranks, total = case.size, amount_of_bytes(expected_bytes(case))
    start = case.run.last_starts[0] if case.run.last_starts else None
    if start is not None and start.strategy == NARROW:
        return _narrow_arithmetic(case, total)
    if start is None or start.bits == 32:
        return (
            f"2 · ({ranks} − 1)/{ranks} · 4 bytes · {case.parameters:,} parameters = "
            f"{total} an update, each way"
        )
    every = f" / {start.every} updates" if start.every > 1 else ""
    return (
        f"({_parties(case)} − 1) · {start.bits} bits and a factor for 256 · "
        f"{case.parameters:,} parameters{every} = {total} an update, each way "
        f"({start.strategy})"
    )


def _narrow_bytes(case: Case) -> int:
    """Return the mean over the updates, of which the first ones are exchanged exactly."""
    numbers = _narrow_numbers(case)
    if not numbers:
        return 0
    narrow = ring_bytes(numbers, case.size)
    share = _exact_share(case)
    return round(share * ring_bytes(case.parameters, case.size) + (1 - share) * narrow)


def _narrow_arithmetic(case: Case, total: str) -> str:
    numbers, ranks, share = _narrow_numbers(case), case.size, _exact_share(case)
    if not numbers:
        return f"what {NARROW} sends cannot be computed: sizes of the model are not recorded"
    rank = int(case.setting("sync", "low_rank", 4))
    first = f"; {share:.0%} of the updates were exact" if share else ""
    return (
        f"2 · ({ranks} − 1)/{ranks} · 4 bytes · {numbers:,} numbers, all matrices as products "
        f"of rank {rank} where that is less{first} = {total} an update, each way ({NARROW})"
    )


def _narrow_numbers(case: Case) -> int:
    """Return the numbers of one update's gradient once it is narrow; 0 if not known."""
    facts = corpus_facts(case.run.corpus)
    if facts is None or not facts.vocabulary:
        return 0
    try:
        settings = msgspec.convert(case.run.config.get("model"), TransformerSettings)
    except msgspec.ValidationError:
        return 0
    shapes = matrix_shapes(settings, facts.vocabulary, facts.source_vocabulary)
    vectors = case.parameters - sum(rows * columns for rows, columns in shapes)
    if vectors < 0:
        return 0  # the settings are not those of the model that was trained
    rank = int(case.setting("sync", "low_rank", 4))
    return vectors + sum(narrowed(*shape, rank) for shape in shapes)


def _exact_share(case: Case) -> float:
    """Return the share of the last start's updates that came before the narrow ones."""
    warmup, began = case.setting("sync", "warmup_steps", 1000), case.run.last_starts[0].time
    steps = [step.step for step in case.run.steps if step.time >= began]
    return sum(step <= warmup for step in steps) / len(steps) if steps else 0.0
