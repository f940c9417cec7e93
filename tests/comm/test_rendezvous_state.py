"""The agents' shared state: what is written comes back, and nothing else is believed."""

import pickle
from datetime import UTC, datetime

import pytest
from torch.distributed.elastic.rendezvous import RendezvousStateError
from torch.distributed.elastic.rendezvous.dynamic_rendezvous import _NodeDesc, _RendezvousState

from unisono.comm.bootstrap.rendezvous_state import decode_state, encode_state


def full_state():
    state = _RendezvousState()
    one, two = _NodeDesc("10.0.0.1", 7, 0), _NodeDesc("b c\n", 8, 1)
    state.round, state.complete, state.deadline = 3, True, datetime.now(UTC)
    state.participants, state.wait_list = {one: 0, two: 1}, {two}
    state.redundancy_list, state.last_heartbeats = {one}, {one: datetime.now(UTC)}
    return state


@pytest.mark.parametrize("state", [_RendezvousState(), full_state()], ids=["new", "full"])
def test_a_state_comes_back_as_it_was(state):
    assert vars(decode_state(encode_state(state))) == vars(state)


class Planted:
    """Runs a command where it is unpickled."""

    def __reduce__(self):
        return (pytest.fail, ("it was unpickled",))


@pytest.mark.parametrize(
    "data",
    [
        pickle.dumps(Planted()),
        b"",
        b"{}",
        b"[" * 100_000,
        b"\xff\xfe",
        encode_state(full_state())[:-1],
        encode_state(full_state()).replace(b'"round":3', b'"round":"3"'),
        encode_state(full_state()).replace(b'"round"', b'"ruond"'),
        encode_state(full_state()).replace(b'{"round"', b'{"more":1,"round"'),
        encode_state(full_state()) + b" " * (2 << 20),
    ],
)
def test_whatever_is_no_state_is_refused_and_never_run(data):
    with pytest.raises(RendezvousStateError):
        decode_state(data)
