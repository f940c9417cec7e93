"""Whether the longest micro-batch fits into the memory of a GPU, tried before the run."""

import torch

from unisono.batching.stream import Batch, longest
from unisono.models.output import loss_sums
from unisono.train.loop import Session
from unisono.train.process_setup import all_fit
from unisono.train.step import Parts

# Of a weight: the optimizer takes them with its first update (Muon half of it for matrices).
MOMENTS_BYTES = 8


def try_longest(session: Session) -> None:
    """Raise a ConfigError on all processes if an update of the longest sentences does not fit.

    Only on GPUs: elsewhere memory grows with what is used. The weights stay as they are.
    """
    parts = session.parts
    if parts.comm.world.device.startswith("cuda"):
        batch = longest(session.stream)
        all_fit(parts.comm, session.settings, lambda: pass_through(parts, batch))


def pass_through(parts: Parts, batch: Batch) -> None:
    """Compute gradients of `batch` without leaving any, beside what the optimizer will take."""
    device, model = torch.device(parts.comm.world.device), parts.replica.module
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    moments = sum(weight.numel() for weight in weights) * MOMENTS_BYTES
    reserved = torch.empty(moments, dtype=torch.uint8, device=device)
    here = batch.to(device)
    with parts.precision.autocast():
        loss = loss_sums(
            model, here.source, here.target_in, here.target_out, parts.label_smoothing
        )
    # Not `backward`: hooks of the strategies would exchange these gradients.
    torch.autograd.grad(loss.sum(), weights, allow_unused=True)
    del reserved
