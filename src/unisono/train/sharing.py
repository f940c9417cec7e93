"""Whether the processes get equal shares of an update."""

from unisono.batching.settings import Budget

WORTH_TELLING = 0.8


def uneven_shares(budget: Budget, processes: int) -> str:
    """Return what to tell if processes would often wait for others, or "".

    An update is as slow as the process with the most micro-batches.
    """
    number = budget.micro_batches_per_update
    most = -(-number // processes)
    if number >= WORTH_TELLING * most * processes:
        return ""
    idle = f", so {processes - number} have nothing to do" if number < processes else ""
    lower = budget.tokens_per_update // (processes * most)
    return (
        f"an update has {number} micro-batches for {processes} processes{idle}; the work would "
        f"be shared evenly with `batching.tokens_per_micro_batch = {lower}`"
    )
