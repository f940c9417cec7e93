"""The agents' shared state: what is written comes back, and nothing else is believed."""

import base64
import copy
import pickle
import random
import threading
from datetime import UTC, datetime, timedelta

import pytest
from torch._C._distributed_c10d import HashStore
from torch.distributed.elastic.rendezvous import (
    RendezvousParameters,
    RendezvousStateError,
    rendezvous_handler_registry,
)
from torch.distributed.elastic.rendezvous.c10d_rendezvous_backend import C10dRendezvousBackend
from torch.distributed.elastic.rendezvous.dynamic_rendezvous import (
    RendezvousSettings,
    RendezvousTimeout,
    _BackendRendezvousStateHolder,
    _NodeDesc,
    _RendezvousState,
)

from unisono.comm.bootstrap.rendezvous_state import (
    BACKEND,
    JsonStateHolder,
    decode_state,
    encode_state,
    use_store,
)

KEY = "torch.rendezvous.a run"


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


def changed(state, draw):
    """Change a state as agents do, and as the clock does."""
    node = _NodeDesc(f"10.0.0.{draw.randrange(4)}", 7, 0)
    kind = draw.choice(["join", "wait", "spare", "beat", "silent", "rank", "round", "close"])
    now = datetime.now(UTC)
    if kind == "join":
        state.participants[node], state.last_heartbeats[node] = 0, now
    elif kind in ("wait", "spare"):
        (state.wait_list if kind == "wait" else state.redundancy_list).add(node)
    elif kind in ("beat", "silent"):
        state.last_heartbeats[node] = now - timedelta(hours=kind == "silent")
    elif kind == "rank":
        state.participants = {one: rank for rank, one in enumerate(sorted_by_name(state))}
        state.complete = True
    elif kind == "round":
        state.round, state.deadline = state.round + 1, now + timedelta(seconds=9)
    else:
        state.closed = draw.random() < 0.3


def sorted_by_name(state):
    return sorted(state.participants, key=str, reverse=True)


@pytest.mark.parametrize("seed", range(20))
def test_it_shares_a_state_as_torchs_own_does(seed):
    """Two agents each, the same changes in the same order: also those that come too late."""
    settings = RendezvousSettings("a run", 2, 3, RendezvousTimeout(), timedelta(seconds=5), 3)
    pairs = []
    for kind in (JsonStateHolder, _BackendRendezvousStateHolder):
        backend = C10dRendezvousBackend(HashStore(), "a run")
        pairs.append([kind(backend, settings, cache_duration=0) for _ in range(2)])
    draw, written = random.Random(seed), []
    for _ in range(60):
        agent, change = draw.randrange(2), draw.random() < 0.6
        ours, theirs = pairs[0][agent], pairs[1][agent]
        if change:
            changed(theirs.state, draw)
            # The same state, to the last moment of the clock.
            ours._state = copy.deepcopy(theirs.state)
            ours.mark_dirty(), theirs.mark_dirty()
        answer = theirs.sync()
        assert ours.sync() is answer
        assert vars(ours.state) == vars(theirs.state)
        written.append(answer)
    assert {True, False, None} <= set(written)


def agents_of(store, count):
    """Return rendezvous handlers as torchrun makes them in the processes of agents."""
    use_store(store)
    parameters = RendezvousParameters(BACKEND, "here:0", "a run", count, count, "127.0.0.1")
    return [rendezvous_handler_registry.create_handler(parameters) for _ in range(count)]


def test_agents_meet_and_what_they_leave_in_the_store_is_json():
    store, met = HashStore(), {}
    agents = agents_of(store, 2)

    def meet(number):
        met[number] = agents[number].next_rendezvous()

    threads = [threading.Thread(target=meet, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {(one.rank, one.world_size) for one in met.values()} == {(0, 2), (1, 2)}
    left = decode_state(base64.b64decode(store.get(KEY)))
    assert left.complete
    assert sorted(left.participants.values()) == [0, 1]
    for agent in agents:
        agent.shutdown()


def test_an_agent_does_not_run_what_stands_in_its_store():
    """As somebody could who knows the secret of the run."""
    store = HashStore()
    store.set(KEY, base64.b64encode(pickle.dumps(Planted())))
    [agent] = agents_of(store, 1)
    with pytest.raises(RendezvousStateError):
        agent.next_rendezvous()
