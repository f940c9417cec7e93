"""Training without `train.compile` must not load torch's compiler: seconds, and 175 MB each."""

import subprocess
import sys
from types import ModuleType

import pytest

from unisono.comm.strategies.lean_ddp import stand_in

BEGIN = """
import sys
import torch
from unisono.models.output import loss_sums
from unisono.models.settings import TransformerSettings
from unisono.models.transformer import build_model
torch.set_num_threads(1)
sizes = TransformerSettings(width=16, heads=2, inner=32, encoder_layers=1, decoder_layers=1)
model = build_model(sizes, 64)
words = torch.full((2, 5), 7)
loss_of = lambda model, _: loss_sums(model, words, words[:, :-1], words[:, 1:], 0.1)
"""
OPTIMIZERS = """
from unisono.optim.build import build_optimizer
from unisono.optim.settings import Adafactor, Adam, AdamW, Muon, Sgd
for settings in Adam(), AdamW(), Sgd(), Adafactor(), Muon():
    optimizer = build_optimizer(settings, model)
    for group in optimizer.param_groups:
        group["lr"] = 0.01
    before = [weight.clone() for weight in model.parameters()]
    loss_of(model, None).backward()
    optimizer.step()
    optimizer.zero_grad()
    optimizer.load_state_dict(optimizer.state_dict())
    moved = [not torch.equal(*pair) for pair in zip(before, model.parameters())]
    assert all(moved), settings
    assert not any(weight.requires_grad is False for weight in model.parameters())
"""
DDP = """
import torch.distributed as dist
from unisono.comm.group import Solo
from unisono.comm.strategies.ddp import DdpReplica
from unisono.stopwatch import Stopwatch
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
replica = DdpReplica(model, Solo(), 25)
assert replica.gradients([1, 2], loss_of, Stopwatch()) > 0
assert "_dynamo" not in vars(torch)
del replica
dist.destroy_process_group()
"""
END = """
assert "torch._dynamo" not in sys.modules
assert "sympy" not in sys.modules
"""
COMPILED = """
assert torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2)).sum() == 4
assert "torch._dynamo" in sys.modules
loss_of(model, None).backward()
optimizer.step()
"""


@pytest.mark.parametrize(
    "script",
    [OPTIMIZERS + END, DDP + END, OPTIMIZERS + END + COMPILED],
    ids=["optim", "ddp", "late"],
)
def test_what_an_update_uses_does_not_load_the_compiler(script):
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + script], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_a_stand_in_replaces_nothing_and_leaves_nothing():
    module = ModuleType("some")
    with pytest.raises(ZeroDivisionError), stand_in(module, "part", 1):
        assert module.part == 1
        raise ZeroDivisionError
    assert not hasattr(module, "part")
    module.part = 2
    with stand_in(module, "part", 1):
        assert module.part == 2
    assert module.part == 2
    del module.part
    with stand_in(module, "part", 1):
        module.part = 3  # somebody loaded the real one
    assert module.part == 3
