"""What the samples of the machines add to the answers on devices and network."""

import re
from dataclasses import replace

import msgspec
import pytest

from diagnose.made_runs import BEGAN, healthy_run, now, start, team
from diagnose.made_samples import (
    HEADERS,
    NEEDED,
    carried,
    gpu,
    machine,
    pair,
    sampled,
    samples,
    uneven,
)
from unisono.diagnose.diagnosis import diagnose
from unisono.diagnose.evidence.counters import (
    Counter,
    Stretch,
    counter_of,
    find_drop,
    stretches_of,
)
from unisono.diagnose.evidence.ledger import keep_ledger
from unisono.diagnose.evidence.sessions import sessions_of
from unisono.diagnose.evidence.traffic import nodes_of
from unisono.records.monitor_events import MachineLog, Sampled, Traffic
from unisono.report.machine_curves import sampled_machines
from unisono.report.machine_panels import network_panel


def answer(run, name):
    return diagnose(run, now()).answer(name)


# --- counters and updates ---------------------------------------------------------------


def test_a_counter_rises_evenly_between_two_readings_and_goes_on_after_a_reset():
    read = [Sampled(time=t, disk_read=n) for t, n in [(0, 10), (2, 30), (3, 5), (4, 9)]]
    counter = counter_of(read, lambda s: s.disk_read)
    assert counter == Counter((0, 2, 3, 4), (10, 30, 35, 39))
    assert [counter.at(t) for t in (-1, 0, 1, 2.5, 4, 9)] == [10, 10, 20, 32.5, 39, 39]


def test_stretches_stop_at_validations_and_at_the_samples_ends():
    steps = healthy_run().ranks[0]
    late = [msgspec.structs.replace(s, time=s.time + 30) for s in steps[99:]]
    looks = samples(count=180)
    found = stretches_of([*steps[:99], *late], looks)
    assert [(s.updates, s.seconds) for s in found] == [(98, 98.0), (49, 49.0)]


@pytest.mark.parametrize("place", [20, 50, 80])
def test_a_drop_is_found_where_it_is(place):
    values = [100.0 + i % 7 for i in range(place)] + [50.0 + i % 5 for i in range(100 - place)]
    found = find_drop(values, factor=1.5, fewest=8)
    assert found == place


@pytest.mark.parametrize(
    "values",
    [
        [100.0] * 100,
        [100.0, 40.0] * 50,  # two rates in turns
        [50.0] * 50 + [100.0] * 50,  # becomes faster
        [100.0] * 96 + [40.0] * 4,  # too short to be for good
        [100.0 - i / 5 for i in range(100)],  # slowly
    ],
    ids=["steady", "in turns", "faster", "short", "slowly"],
)
def test_other_courses_are_no_drop(values):
    assert find_drop(values, factor=1.5, fewest=8) is None


# --- who was waited for ------------------------------------------------------------------


def test_the_ledger_says_for_whom_everybody_waited_and_how_long():
    def parts(rank, n):
        late = 2 if n % 4 else 0
        if rank == late:
            return {"backward": 0.5, "exchange": 0.05}
        return {"backward": 0.1, "exchange": 0.45}

    run = team(parts, ["a", "b", "c"], steps=40)
    ledger = keep_ledger(run, sessions_of(run))
    assert ledger.rows[0].late_rank == 2
    assert ledger.rows[0].waits == pytest.approx({0: 0.4, 1: 0.4, 2: 0.0})
    assert ledger.rows[0].wire == pytest.approx(0.05)
    assert ledger.waited_for == pytest.approx({2: 30 * 0.8, 0: 10 * 0.8})


# --- network ----------------------------------------------------------------------------


def test_the_interface_that_carries_the_exchange_is_proved_by_its_bytes():
    found = answer(pair(rates=(94.0, 94.0)), "network")
    assert found.verdict == "bottleneck"
    assert found.values["interface"] == "eth0"
    assert found.values["link_mbit_per_s"] == pytest.approx(94.0, rel=0.01)
    assert found.values["nominal_mbit_per_s"] == 1000
    assert found.values["expected_bytes_per_step"] == NEEDED
    assert found.values["measured_bytes_per_step"] == pytest.approx(HEADERS * NEEDED, rel=0.001)
    assert found.values["foreign_bytes_per_step"] == 0
    assert any("eth0 carries the exchange" in line for line in found.evidence)


def test_another_interface_than_the_one_named_is_found_by_its_bytes():
    run = pair(interfaces=lambda rate: carried(rate, "ib0"))
    assert answer(run, "network").values["interface"] == "ib0"


def test_an_interface_with_too_few_bytes_is_not_called_the_carrier():
    run = pair(interfaces=lambda rate: carried(rate / 3))
    found = answer(run, "network")
    assert any("does not carry the whole exchange" in line for line in found.evidence)


def test_bytes_lost_where_short_stretches_end_are_not_missed():
    """Updates of a tenth of a second, ten at a time, and two seconds of a checkpoint."""
    run = pair(interfaces=lambda rate: carried(0.7 * rate))
    node = nodes_of(run)[0]
    assert node.blurred < 0.01
    assert node.carrier(NEEDED) is None
    short = tuple(Stretch(BEGAN + 3 * n, BEGAN + 3 * n + 1, 10) for n in range(10))
    blurred = replace(node, stretches=short, seconds=10.0)
    assert blurred.blurred == 0.5
    assert blurred.carrier(NEEDED) == "eth0"


def test_loopback_never_carries_what_goes_to_another_machine():
    run = pair(interfaces=lambda rate: carried(rate, "lo"))
    assert answer(run, "network").values["interface"] is None


def on_one_machine(**fields):
    run = team(lambda rank, n: {"exchange": 0.1}, ["alpha", "alpha"])
    starts = tuple(msgspec.structs.replace(s, interface="lo") for s in run.starts)
    return sampled(replace(run, starts=starts), **fields)


def test_on_one_machine_page_and_answers_agree_that_loopback_was_sampled():
    run = on_one_machine(interfaces=carried(1.5 * NEEDED, "lo"))
    for name in ("network", "step_vs_network"):
        found = answer(run, name)
        assert found.values["loopback_bytes_per_step"] == pytest.approx(1.5 * NEEDED, rel=0.01)
        assert "loopback interface carried" in " ".join(found.evidence)
        assert "is not network traffic" in " ".join(found.evidence)
        assert "not sampled" not in " ".join(found.evidence)
    panel = network_panel(run, sampled_machines(run))
    assert panel.title == "Loopback rate"
    assert "not network traffic" in panel.unit
    assert panel.points


def test_on_one_machine_without_samples_both_say_nothing():
    run = on_one_machine()
    assert network_panel(run, sampled_machines(run)).is_empty
    for name in ("network", "step_vs_network"):
        assert "loopback interface was not sampled" in " ".join(answer(run, name).evidence)


def test_without_samples_nothing_is_made_up():
    run = replace(pair(), machines={})
    found = answer(run, "network")
    assert found.values["measured_bytes_per_step"] is None
    assert "not sampled" in found.summary


@pytest.mark.parametrize(
    ("device", "hidden", "told"),
    [("cpu", 0.0, 0.0), ("cpu", 0.2, 0.2), ("cuda:0", 0.2, 0.2), ("cuda:0", 0.0, None)],
)
def test_hidden_exchange_is_told_where_it_was_recorded(device, hidden, told):
    run = pair()
    starts = tuple(msgspec.structs.replace(s, device=device) for s in run.starts)
    ranks = {
        rank: tuple(msgspec.structs.replace(s, hidden=hidden) for s in steps)
        for rank, steps in run.ranks.items()
    }
    found = answer(replace(run, starts=starts, ranks=ranks), "network")
    assert found.values["hidden_seconds_per_step"] == told
    assert any("backward pass hid" in line for line in found.evidence) == (told is not None)


def test_step_and_network_are_joined_by_bytes():
    found = answer(pair(), "step_vs_network")
    assert found.values["measured_bytes_per_step"] == pytest.approx(HEADERS * NEEDED, rel=0.001)


# --- devices ----------------------------------------------------------------------------


def on_gpu(watts, run=None, **fields):
    run = run or healthy_run(starts=(start(device="cuda:0"),))
    return sampled(run, gpus=[gpu(watts, **fields)])


def test_a_gpu_at_full_utilisation_that_draws_an_idle_cards_power_is_not_busy():
    found = answer(on_gpu(42.0), "devices")
    assert found.verdict == "waiting"
    assert (found.values["utilisation"], found.values["power_watts"]) == (1.0, 42.0)
    assert "42 W of 250 W" in found.summary


def test_a_gpu_near_its_power_limit_that_computes_is_busy():
    found = answer(on_gpu(200.0, throttled=["heat"]), "devices")
    assert found.verdict == "busy"
    assert any("throttled by heat for 100 %" in line for line in found.evidence)


def test_a_gpu_that_draws_some_power_while_the_ledger_says_it_computes_is_not_judged():
    found = answer(on_gpu(112.0), "devices")
    assert found.verdict == "unknown"
    assert "112 W of 250 W" in found.summary


def test_gpus_of_processes_that_see_but_their_own_all_count():
    starts = tuple(start(rank, 2, device="cuda:0") for rank in range(2))
    steps = healthy_run().ranks[0]
    run = healthy_run(starts=starts, ranks={0: steps, 1: steps})
    both = [gpu(200.0), msgspec.structs.replace(gpu(240.0), index=1)]
    log = MachineLog((msgspec.structs.replace(machine(), used=[0, 1]),), samples(gpus=both))
    assert answer(sampled(run, log), "devices").values["power_watts"] == 220.0


def test_a_gpu_is_told_with_its_clock_and_with_whom_it_is_shared():
    run = on_gpu(
        200.0,
        mhz=900,
        most_mhz=1530,
        memory_used=12 * 10**9,
        memory_total=16 * 10**9,
        own_memory=8 * 10**9,
        others=1,
    )
    lines = [line for line in answer(run, "devices").evidence if "GPU 0" in line]
    assert "clock 900 of 1530 MHz" in lines[0]
    assert "memory 75 % (this run 50 %)" in lines[0]
    assert "shared with 1 other process" in lines[0]


def test_power_does_not_outweigh_the_ledger():
    waits = tuple(
        msgspec.structs.replace(s, data=0.5, backward=0.0) for s in healthy_run().ranks[0]
    )
    run = healthy_run(starts=(start(device="cuda:0"),), ranks={0: waits})
    assert answer(on_gpu(200.0, run), "devices").verdict == "waiting"


def test_utilisation_alone_proves_nothing():
    run = healthy_run(starts=(start(device="cuda:0"),))
    card = msgspec.structs.replace(gpu(), watts=None)
    found = answer(sampled(run, gpus=[card]), "devices")
    assert found.verdict == "unknown"
    assert found.values["utilisation"] == 1.0


def test_a_data_sheet_tells_what_the_arithmetic_is_worth():
    run = healthy_run(
        starts=(start(device="cuda:0"),),
        environment={"devices": ["Tesla V100-SXM2-16GB"]},
        ranks={
            0: tuple(
                msgspec.structs.replace(
                    s,
                    sentences=40 * 2000,
                    positions=2000 * 2000,
                    source_tokens=900 * 2000,
                    target_tokens=1000 * 2000,
                )
                for s in healthy_run().ranks[0]
            )
        },
        config={**healthy_run().config, "model": {"width": 512}},
    )
    found = answer(run, "devices")
    assert found.verdict == "busy"
    assert "V100" in found.summary


@pytest.mark.parametrize(("cores", "verdict"), [(1.8, "busy"), (1.0, "waiting")])
def test_cores_count_as_busy_by_the_seconds_the_run_had_of_them(cores, verdict):
    found = answer(sampled(own_cpu=lambda second: cores * second), "devices")
    assert found.verdict == verdict
    assert found.values["cpu_share"] == pytest.approx(cores / 2)


def test_too_few_samples_prove_nothing():
    log = MachineLog((machine(),), samples(count=3))
    assert answer(sampled(log=log), "devices").verdict == "unknown"


# --- why a rank is late -----------------------------------------------------------------

WAITS = {"backward": 0.2, "exchange": 0.42}


@pytest.mark.parametrize(
    ("positions", "late", "words"),
    [
        ((1000, 1000), {"backward": 0.6, "exchange": 0.02}, "computes more slowly"),
        ((1000, 2000), {"backward": 0.6, "exchange": 0.02}, "its share of every update"),
        ((1000, 1000), {"backward": 0.2, "data": 0.4, "exchange": 0.02}, "its data came late"),
        ((1000, 2000), {"backward": 0.2, "data": 0.4, "exchange": 0.02}, "its data came late"),
    ],
    ids=["compute", "tokens", "input", "input and tokens"],
)
def test_a_late_rank_is_told_with_its_reason(positions, late, words):
    run = uneven(positions, [WAITS, late])
    (found,) = [f for f in diagnose(run, now()).findings if f.id == "straggler"]
    assert "rank 1" in found.summary
    assert words in found.summary


def test_a_machine_is_not_late_because_it_has_most_of_the_ranks():
    def parts(rank, n):
        late = rank == n % 4
        return {"backward": 0.6 if late else 0.2, "exchange": 0.02 if late else 0.42}

    run = team(parts, ["alpha", "beta", "beta", "beta"])
    report = diagnose(run, now())
    assert report.bottleneck.cause == "straggler"
    assert [f for f in report.findings if f.id == "straggler"] == []
    assert "in turns" in report.headline


def test_what_else_runs_on_the_late_machine_is_evidence():
    run = uneven((1, 1), [WAITS, {"backward": 0.6, "exchange": 0.02}])
    logs = {
        0: MachineLog((machine(0, "alpha"),), samples()),
        1: MachineLog((machine(1, "beta"),), samples(cores=[1.0] * 4, held_back=float)),
    }
    (found,) = [
        f for f in diagnose(replace(run, machines=logs), now()).findings if f.id == "straggler"
    ]
    assert any("other programs on beta used 2.2 of its 4 cores" in e for e in found.evidence)
    assert any("quota stopped it for 1.00 s" in e for e in found.evidence)


def test_what_holds_the_clock_of_a_late_gpu_down_is_evidence():
    run = uneven((1, 1), [WAITS, {"backward": 0.6, "exchange": 0.02}])
    starts = tuple(msgspec.structs.replace(s, device="cuda:0") for s in run.starts)
    quick, slow = gpu(mhz=1500, most_mhz=1530), gpu(mhz=700, most_mhz=1530, throttled=["heat"])
    logs = {
        0: MachineLog((machine(0, "alpha"),), samples(gpus=[quick])),
        1: MachineLog((machine(1, "beta"),), samples(gpus=[slow])),
    }
    (found,) = [
        f
        for f in diagnose(replace(run, starts=starts, machines=logs), now()).findings
        if f.id == "straggler"
    ]
    assert "its GPU ran at 700 of 1530 MHz, the others at 1500" in found.evidence
    assert "heat throttled its GPU for 100 % of the time" in found.evidence


def test_what_was_lost_on_the_way_is_told():
    def lossy(per_second):
        return lambda second: {
            "eth0": Traffic(
                sent=round(per_second * second),
                received=round(per_second * second),
                drops=second,
            )
        }

    run = pair(interfaces=lossy)
    found = answer(run, "network")
    assert any(re.match(r"alpha: eth0: \d+ packets dropped", e) for e in found.evidence)
    healthy = answer(pair(), "network")
    assert not any("dropped" in line for line in healthy.evidence)
