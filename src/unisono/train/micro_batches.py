"""How many tokens go through the model at once, where the config leaves it open.

On CPUs a number for all; on GPUs as many as the smallest of them holds. The run's config.toml
records the number, because a continued run must cut the same micro-batches.
"""

import msgspec
import torch

from unisono.batching.bpe_dropout import MAX_GROWTH
from unisono.batching.settings import TOKENS_ON_CPU
from unisono.comm.protocol import Comm
from unisono.config.settings import Settings
from unisono.models.memory import CONTEXT_BYTES, even_tokens, tokens_for
from unisono.train.run_lock import recorded_micro_batch


def settle_micro_batches(comm: Comm, settings: Settings) -> Settings:
    """Choose `tokens_per_micro_batch` if it is not set; all processes call this together.

    The precision must be known.
    """
    if settings.batching.tokens_per_micro_batch:
        return settings
    recorded = recorded_micro_batch(settings) if comm.world.leads else 0
    tokens = agreed_tokens(comm, settings, recorded)
    return msgspec.structs.replace(settings, batching=settings.batching.filled(tokens))


def agreed_tokens(comm: Comm, settings: Settings, recorded: int) -> int:
    """Return what suits all devices; all processes call this together.

    A run that the leader continues keeps what is `recorded`.
    """
    device, size = comm.world.device, comm.world.size
    on_gpu = device.startswith("cuda")
    mine = tokens_on(device, settings, size) if on_gpu else TOKENS_ON_CPU
    rows = comm.gather([mine, recorded])
    if kept := int(rows[0][1]):
        return kept
    fit = int(min(row[0] for row in rows))
    if not on_gpu:
        return fit
    longest = settings.corpus.max_pieces + 1
    return even_tokens(fit, settings.batching.tokens_per_update, size, longest)


def tokens_on(device: str, settings: Settings, processes: int) -> int:
    """Return how many tokens a GPU takes at once; 0 if the model alone fills it."""
    room = free_for_us(device)[0]
    model, vocabulary = settings.model, settings.corpus.vocabulary
    kind = settings.train.precision
    fit = tokens_for(model, vocabulary, kind, room, processes)
    return fit // MAX_GROWTH if settings.batching.bpe_dropout else fit


def free_for_us(device: str) -> tuple[float, float]:
    """Return the bytes of a GPU that this process may fill, and those that others hold."""
    free, total = torch.cuda.mem_get_info(device)
    others = max(0.0, total - free - torch.cuda.memory_reserved(device) - CONTEXT_BYTES)
    return total - others, others
