"""What samplers would have written beside the runs of `made_runs`, whose truth is known."""

from dataclasses import replace

import msgspec

from diagnose.made_runs import BEGAN, PARAMETERS, healthy_run, step, team
from unisono.cost_model.exchange import ring_bytes
from unisono.records.monitor_events import (
    Gpu,
    Machine,
    MachineLog,
    NetworkInterface,
    Peer,
    Sampled,
    Traffic,
)

HEADERS = 1.04
HOSTS = ["alpha", "beta"]
ADDRESSES = {"alpha": "10.0.0.1", "beta": "10.0.0.2"}
NEEDED = ring_bytes(PARAMETERS, 2)
MBIT = 125_000.0  # bytes a second


def machine(rank=0, host="alpha", links=None, cores=4, time=BEGAN):
    ours = {"eth0": NetworkInterface(mbit_per_s=1000, addresses=[f"{ADDRESSES[host]}/24"])}
    return Machine(
        time=time,
        rank=rank,
        host=host,
        pids=[100 + rank],
        cores=cores,
        memory=16 * 10**9,
        every=1.0,
        interfaces=links or ours,
    )


def samples(count=202, **fields):
    """One look a second; a field that is a function is asked with the seconds since BEGAN."""
    return tuple(
        Sampled(
            time=BEGAN + second,
            seconds=1.0 if second else 0.0,
            **{
                name: value(second) if callable(value) else value
                for name, value in {**QUIET, **fields}.items()
            },
        )
        for second in range(count)
    )


QUIET = {
    "cores": [0.9, 0.9, 0.05, 0.05],
    "memory_used": 4 * 10**9,
    "memory_limit": 16 * 10**9,
    "own_cpu": lambda second: 1.8 * second,
    "own_memory": 2 * 10**9,
}


def sampled(run=None, log=None, **fields):
    """A run of one process, and its machine's samples."""
    log = log or MachineLog((machine(),), samples(**fields))
    return replace(run or healthy_run(), machines={0: log})


def gpu(watts=200.0, **fields):
    return Gpu(index=0, utilisation=1.0, watts=watts, limit_watts=250.0, **fields)


def carried(per_second, name="eth0"):
    """An interface that carries so many bytes a second each way."""
    return lambda second: {
        name: Traffic(sent=round(per_second * second), received=round(per_second * second))
    }


def pair(
    exchange=0.6,
    rates=(1000.0, 1000.0),
    foreign=0.0,
    links=None,
    interfaces=None,
    peers=None,
    **fields,
):
    """Two machines, an update a second, of which `exchange` is on the wire.

    `rates` are what each can send, in Mbit/s; `foreign` bytes a second are not the run's.
    """
    rest = 0.9 - exchange
    run = team(
        lambda rank, n: {
            "forward": rest / 2,
            "backward": rest / 2,
            "optimizer": 0.05,
            "exchange": exchange,
        },
        HOSTS,
    )
    starts = tuple(
        msgspec.structs.replace(s, interface="eth0", address=ADDRESSES[s.host], local_rank=0)
        for s in run.starts
    )
    logs = {}
    for rank, host in enumerate(HOSTS):
        there = ADDRESSES[HOSTS[1 - rank]]
        rate = rates[rank] * MBIT
        told = peers(rank, there) if peers else way(there, rate)
        seen = samples(
            interfaces=(interfaces or carried)(HEADERS * NEEDED + foreign), peers=told, **fields
        )
        logs[rank] = MachineLog((machine(rank, host, links and links(host)),), seen)
    return replace(run, starts=starts, machines=logs)


def way(address, rate, rtt=0.0005, able=0.0):
    """The run's connection to an address: as many bytes as it needs, at this rate.

    `able` is what the kernel thinks it can carry.
    """
    return lambda second: {
        address: Peer(
            sent=NEEDED * second,
            received=NEEDED * second,
            busiest_sent=NEEDED * second,
            busy=NEEDED * second / rate,
            rtt=rtt,
            rate=able,
        )
    }


def fading(address, fast, slow, at):
    """A connection whose rate falls at second `at`."""

    def told(second):
        early, late = min(second, at), max(0, second - at)
        busy = NEEDED * early / (fast * MBIT) + NEEDED * late / (slow * MBIT)
        return {
            address: Peer(
                sent=NEEDED * second,
                received=NEEDED * second,
                busiest_sent=NEEDED * second,
                busy=busy,
            )
        }

    return told


def uneven(positions, parts):
    """Two processes of which the second is late, with these positions and parts."""
    run = team(lambda rank, n: parts[rank], HOSTS)
    ranks = {
        rank: tuple(msgspec.structs.replace(s, own_positions=positions[rank]) for s in steps)
        for rank, steps in run.ranks.items()
    }
    return replace(run, ranks=ranks)


def quick_steps(seconds=0.5):
    return {0: tuple(step(n, seconds=seconds) for n in range(1, 201))}


def two_networks(host, second=10_000):
    number = {"alpha": 1, "beta": 2}[host]
    return {
        "eth0": NetworkInterface(mbit_per_s=1000, addresses=[f"10.0.0.{number}/24"]),
        "eth1": NetworkInterface(mbit_per_s=second, addresses=[f"10.0.9.{number}/24"]),
    }


def burst(at=100, slow=100.0):
    return pair(peers=lambda rank, there: fading(there, 1000.0, slow, at))


def far_apart(rtt):
    return pair(peers=lambda rank, there: way(there, 125e6, rtt))
