"""What the panels show is what was recorded."""

import math
from dataclasses import replace

import msgspec
import pytest

from diagnose.made_runs import BEGAN, healthy_run, now, start, step, team, validated
from diagnose.made_samples import HEADERS, NEEDED, gpu, machine, pair, sampled, samples
from report.rich_run import SPIKES, rich_run
from unisono.diagnose.diagnosis import diagnose
from unisono.diagnose.evidence.ledger import keep_ledger
from unisono.diagnose.evidence.sessions import sessions_of
from unisono.records.monitor_events import MachineLog
from unisono.report.charts import charts_of
from unisono.report.machine_curves import sampled_machines, timed_bins
from unisono.report.machine_panels import machine_panels, network_panel
from unisono.report.panels import bleu_panel, loss_panel, parts_panel, rate_panel, time_panel
from unisono.report.step_bars import node_bars
from unisono.report.timeline import lanes_of


def ledger_of(run):
    return keep_ledger(run, sessions_of(run))


def shown(panels):
    return {panel.title: panel for panel in panels if not panel.is_empty}


def test_the_rate_is_drawn_in_a_readable_unit():
    panel = rate_panel(healthy_run())
    assert panel.unit == "in units of 10⁻³"
    assert max(y for _, y in panel.points) == pytest.approx(1.0)


def test_the_best_validation_is_marked():
    run = healthy_run(validations=(validated(20, 3.0), validated(40, 2.0), validated(60, 2.5)))
    assert [mark.label for mark in loss_panel(run).marks] == ["best 2.000 at 40"]


def test_a_run_without_bleu_has_no_panel_of_it():
    assert bleu_panel(healthy_run(validations=(validated(20, 3.0),))).is_empty


def test_a_very_slow_step_is_told_instead_of_drawn():
    steps = (step(1, seconds=500.0), *(step(n) for n in range(2, 201)))
    panel = time_panel(healthy_run(ranks={0: steps}))
    assert panel.bounds[1] < 5
    assert "step 1 with 8 min 20 s" in panel.note


def test_the_parts_of_an_update_add_up_to_it():
    run = team(lambda rank, n: {"exchange": 0.03 * (1 + rank), "data": 0.01}, ["a", "b"])
    columns = parts_panel(ledger_of(run)).columns
    for heights in zip(*(layer.heights for layer in columns.layers), strict=True):
        assert sum(heights) == pytest.approx(1000.0 if columns.layers[0].unit == "ms" else 1.0)
    assert columns.edges[0] == 1.0  # the first update of a start is left out
    assert columns.edges[-1] == 200.0


def test_bars_tell_who_waits_for_whom():
    # The second computes for longer, and the first waits for it.
    def parts(rank, n):
        return {"forward": 0.3 + 0.2 * rank, "backward": 0.2, "exchange": 0.3 - 0.2 * rank}

    run = team(parts, ["alpha", "beta"])
    fast, slow = node_bars(run, ledger_of(run))
    assert (fast.name, slow.name) == ("alpha", "beta")
    widths = {piece.style: piece.share for piece in fast.pieces}
    assert widths["network"] == pytest.approx(0.1)
    assert widths["straggler"] == pytest.approx(0.2)
    assert sum(widths.values()) == pytest.approx(1.0)
    assert "straggler" not in {piece.style for piece in slow.pieces}


def test_on_one_machine_every_process_has_its_bar():
    run = team(lambda rank, n: {"exchange": 0.1}, ["alpha", "alpha"])
    assert [b.name for b in node_bars(run, ledger_of(run))] == [
        "alpha, process 0",
        "alpha, process 1",
    ]


def test_a_process_alone_exchanges_nothing():
    run = healthy_run(ranks={0: tuple(step(n, exchange=0.05) for n in range(1, 101))})
    (bar,) = node_bars(run, ledger_of(run))
    assert "network" not in {piece.style for piece in bar.pieces}
    layers = parts_panel(ledger_of(run)).columns.layers
    assert "network" not in {layer.style for layer in layers}


def test_the_network_rate_is_what_the_interface_carried():
    run = pair()
    panel = network_panel(run, sampled_machines(run))
    assert [curve.name for curve in panel.curves] == ["alpha", "beta"]
    rate = HEADERS * NEEDED * 8e-6
    for _, mbit in panel.points:
        assert mbit == pytest.approx(rate, rel=0.001)
    assert "eth0" in panel.unit


def test_time_for_validations_counts_for_nothing():
    # Between step 100 and 101 pass 50 seconds, in which the cores stand still.
    steps = (
        *(step(n) for n in range(1, 101)),
        *(step(n, time=BEGAN + n + 50) for n in range(101, 201)),
    )
    log = MachineLog(
        (machine(),),
        samples(260, cores=lambda s: [0.0 if 100 < s < 150 else 0.8] * 4, own_cpu=0.0),
    )
    run = sampled(healthy_run(ranks={0: steps}), log)
    cpu = shown(machine_panels(run, sampled_machines(run)))["CPU use"].curves[0]
    assert {round(y) for _, y in cpu.points} == {80}


def test_bins_of_samples_cover_the_updates_once():
    run = sampled()
    bins = timed_bins(run.steps, run.machines[0].samples)
    assert sum(s.updates for b in bins for s in b.stretches) == 199
    assert len(bins) <= 100
    ends = [(s.began, s.ended) for b in bins for s in b.stretches]
    assert ends == sorted(ends)
    assert all(one[1] == after[0] for one, after in zip(ends, ends[1:], strict=False))


def test_a_change_is_seen_at_its_step():
    run = sampled(memory_used=lambda second: (4 if second < 120 else 8) * 10**9)
    memory = shown(machine_panels(run, sampled_machines(run)))["Memory"].curves[0].points
    first = next(step for step, gigabytes in memory if gigabytes > 6)
    assert abs(first - 120) <= 3


def test_devices_without_gpus_have_no_panels_of_them():
    run = sampled()
    assert set(shown(machine_panels(run, sampled_machines(run)))) == {"CPU use", "Memory"}


def test_disks_have_a_panel_with_the_runs_share_if_they_do_anything():
    def rising(mb_per_s):
        return lambda second: round(mb_per_s * 1e6 * second)

    own = {"own_read": rising(5), "own_written": rising(1)}
    run = sampled(disk_read=rising(20), **own)
    everybody, ours = shown(machine_panels(run, sampled_machines(run)))["Disk"].curves
    assert [everybody.points[3][1], ours.points[3][1]] == pytest.approx([20, 6])
    idle = sampled(disk_read=rising(0.01), own_read=rising(0.01), own_written=rising(0))
    assert "Disk" not in shown(machine_panels(idle, sampled_machines(idle)))


def test_power_is_shown_with_its_limit():
    run = sampled(gpus=lambda second: [gpu(120.0), gpu(999.0, )])  # fmt: skip
    starts = (start(device="cuda:0"),)
    run = replace(run, starts=starts)
    panels = shown(machine_panels(run, sampled_machines(run)))
    assert [c.name for c in panels["GPU power"].curves] == ["alpha", "limit"]
    assert panels["GPU power"].curves[1].last == "250"
    assert panels["GPU use"].curves[0].last == "100"


def test_gpus_that_the_run_does_not_use_do_not_count():
    idle = msgspec.structs.replace(gpu(10.0), index=1)
    run = replace(sampled(gpus=lambda s: [gpu(120.0), idle]), starts=(start(device="cuda"),))
    panels = shown(machine_panels(run, sampled_machines(run)))
    assert panels["GPU power"].curves[0].last == "120"


def test_many_machines_make_one_curve_and_a_band():
    hosts = [f"node{n}" for n in range(9)]
    run = team(lambda rank, n: {"exchange": 0.1}, hosts)
    logs = {
        rank: MachineLog(
            (msgspec.structs.replace(machine(), rank=rank, host=host),),
            samples(cores=[rank / 10] * 4),
        )
        for rank, host in enumerate(hosts)
    }
    run = replace(run, machines=logs)
    (curve,) = shown(machine_panels(run, sampled_machines(run)))["CPU use"].curves
    assert curve.name == "mean of 9 machines"
    assert curve.points[50][1] == pytest.approx(40)
    assert curve.band[50][1:] == pytest.approx((0, 80))


def test_what_happened_is_told_with_its_step():
    run = rich_run()
    lanes = {lane.kind: lane for lane in lanes_of(run, diagnose(run, now()))}
    assert lanes["evaluation"].name == "10 evaluations"
    assert [one.step for one in lanes["checkpoint"].happenings] == [50, 100, 150, 200]
    assert [one.step for one in lanes["start"].happenings] == [60]
    found = {one.step: one.words for one in lanes["finding"].happenings}
    assert "loss spike" in found[SPIKES[0]]
    assert "warnings" in found[120]
    assert any("burst credits" in words and abs(s - 100) < 5 for s, words in found.items())


def test_hundreds_of_evaluations_are_thinned_and_the_last_is_kept():
    run = healthy_run(validations=tuple(validated(n, 2.5) for n in range(1, 1001)))
    (lane, *_) = lanes_of(run, diagnose(run, now()))
    assert len(lane.happenings) <= 150
    assert lane.happenings[-1].step == 1000
    assert lane.name == "1,000 evaluations, one in 7 shown"


def test_overfitting_is_marked_where_it_begins():
    losses = [3.0, 2.5, 2.0, *(2.0 + 0.1 * n for n in range(1, 8))]
    run = healthy_run(
        validations=tuple(validated(20 * n, x) for n, x in enumerate(losses, start=1))
    )
    report = diagnose(run, now())
    assert report.answer("overfitting").verdict == "yes"
    (lane,) = (lane for lane in lanes_of(run, report) if lane.kind == "finding")
    assert any("overfitting" in one.words and one.step == 60 for one in lane.happenings)


def test_an_imported_run_has_no_panel_that_it_does_not_fill():
    steps = tuple(
        msgspec.structs.replace(step(n), seconds=math.nan, learning_rate=math.nan)
        for n in range(10, 200, 10)
    )
    bare = healthy_run(ranks={0: steps}, starts=(), saves=(), config={})
    charts = charts_of(diagnose(bare, now()), bare, ledger_of(bare))
    assert [drawing.panel.title for drawing in charts.course][:1] == ["Loss"]
    assert all(drawing.named for drawing in (*charts.course, *charts.parts, *charts.machines))
    assert charts.machines == ()
