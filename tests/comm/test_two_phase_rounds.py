"""Local updates whose movements are summed in two phases, in the background."""

from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from test_diloco import RATE, attach, row_of, update

from support.exchanges import new_model
from unisono.comm.strategies.compressed import trained_weights
from unisono.comm.strategies.diloco import Diloco
from unisono.comm.strategies.diloco_outer import OuterOptimizer
from unisono.comm.strategies.packed_gather import CommThread, Subgroups
from unisono.comm.waiting import how_contact_was_lost
from unisono.errors import RunError

pytestmark = pytest.mark.ranks


def moved_and_agreed(comm, phases):
    """Make local updates; return how far all moved, and what of it is nowhere, as shares."""
    replica = attach(comm, bits=4, local_steps=3, phases=phases)
    start, moved = row_of(replica.module).double(), 0
    for step in range(1, 9):
        update(replica, comm.world.rank, step)
        gradients = [weight.grad.flatten() for weight in replica.module.parameters()]
        moved = moved + RATE * torch.cat(gradients).double()
    outer = replica.memory._outer
    outer._finish_pending()
    agreed = torch.cat([one.anchor for one in outer._fragments])
    left = torch.cat([one.residual[: len(one.anchor)] for one in outer._fragments])
    kept = comm.sum((agreed - row_of(replica.module) + left).double())
    everyones = comm.sum(moved)
    lost = comm.world.size * (start - agreed.double()) + kept - everyones
    scale = everyones.abs().max()
    return float(comm.sum(left).abs().max() / scale), float(lost.abs().max() / scale)


@pytest.mark.parametrize("phases", [1, 2])
@pytest.mark.parametrize("group", ["ranks", "three_by_two"])
@pytest.mark.parametrize("ranks", [4], indirect=True)
def test_all_that_machines_moved_is_agreed_on_or_left_over(request, group, ranks, phases):
    for left, lost in request.getfixturevalue(group).run(moved_and_agreed, phases):
        assert left > 0.003
        assert lost < 1e-5


def one_machine_breaks(comm):
    """Let the last process have a weight that is not a number; return what ends the run."""
    replica = attach(comm, bits=4, local_steps=2, phases=2)
    update(replica, comm.world.rank, 1)
    if comm.world.rank == comm.world.size - 1:
        replica.module[0].weight.data[0, 0] = torch.nan
    for step in (2, 3, 4):
        try:
            update(replica, comm.world.rank, step)
        except RunError as error:
            return step, str(error)
    return 0, ""


@pytest.mark.parametrize("ranks", [4], indirect=True)
def test_all_machines_notice_weights_that_are_not_finite(ranks):
    first, *others = ranks.run(one_machine_breaks)
    assert "the sum of what processes moved holds a number that is not finite" in first[1]
    assert all(other == first for other in others)


def agree_with_nobody(comm):
    """Let the leading process send a fragment that no other sends; return what it says."""
    group = dist.new_group(timeout=timedelta(seconds=1))
    said = ""
    if comm.world.leads:
        size, model = comm.world.size, new_model()
        alone = Subgroups(size, size, 1, 0, leads=True, between=group)
        settings = Diloco(local_steps=1, bits=8, phases=2)
        outer = OuterOptimizer(trained_weights(model), {}, alone, settings, CommThread("cpu"))
        outer.take_turn(1)
        with pytest.raises(RuntimeError) as caught:
            outer.take_turn(2)
        said = how_contact_was_lost(caught.value)
    comm.barrier()
    return said


@pytest.mark.parametrize("ranks", [2], indirect=True)
def test_what_does_not_arrive_in_the_background_is_an_error_of_the_next_turn(ranks):
    assert ranks.run(agree_with_nobody) == ["Timed out waiting", ""]
