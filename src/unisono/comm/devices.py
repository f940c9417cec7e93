"""Devices that are still at work when a call returns."""

import torch


def wait_for_device(device: str) -> None:
    """Wait until a GPU has done what it was given; a CPU always has.

    Otherwise the next thing that needs a number would wait, under the name of another part.
    """
    if device.startswith("cuda"):
        torch.cuda.current_stream().synchronize()
