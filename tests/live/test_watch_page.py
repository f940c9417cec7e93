"""The page of a run that goes on, as text."""

import io
import os
import pty
import re
import select
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from rich.console import Console

from diagnose.made_runs import BEGAN, ended, healthy_run, start, step, team, validated
from diagnose.made_samples import gpu, pair, sampled
from live_page.made_files import write_run
from report.rich_run import rich_run
from unisono.cli import unisono
from unisono.diagnose.evidence.energy import joules_of
from unisono.live.page import bar, page, sparkline
from unisono.live.window import LANE_CAUSES, now_of
from unisono.records.events import Sample, Warned, to_line
from unisono.records.view import read_run


def shown(run, at, width=100):
    outline = [(event.step, event.loss) for event in run.steps]
    written = io.StringIO()
    console = Console(file=written, width=width, highlight=False)
    console.print(page(Path("runs/x"), run, outline, now_of(run, at), width))
    return written.getvalue()


def going(steps=100, **changes):
    return healthy_run(steps=steps, ends=(), **changes)


def test_progress_speed_and_time_left():
    text = shown(going(), BEGAN + 101)
    assert "runs/x  running" in text
    assert "50 %  step 100 of 200  1 min 40 s left" in text
    assert "1,000 target tokens/s   1.00 s a step" in text
    assert "best 2.5000 at step 20" in text


def test_the_pause_before_a_resume_does_not_count_as_work():
    # 50 updates, an hour of nothing, and 50 more.
    steps = [step(n, time=BEGAN + n + (3600 if n > 50 else 0)) for n in range(1, 101)]
    starts = (start(), start(step=50, time=BEGAN + 3650))
    run = going(starts=starts, ranks={0: tuple(steps)}, validations=(), saves=())
    assert "step 100 of 200  1 min 40 s left" in shown(run, BEGAN + 3700)


def limited(**train):
    run = going()
    return replace(run, config={**run.config, "train": train})


def test_passes_and_time_are_limits_as_well():
    # An epoch has 50 updates.
    text = shown(limited(max_epochs=10), BEGAN + 101)
    assert "20 %  step 100 of 500  6 min 40 s left" in text
    assert "step 100  3 min 19 s left" in shown(limited(max_time="5 min"), BEGAN + 101)


def test_the_end_of_a_long_name_and_the_state_are_seen():
    run = going()
    now = now_of(run, BEGAN + 101)
    console = Console(file=io.StringIO(), width=60, highlight=False)
    console.print(page(Path("/a" * 100) / "the-name", run, [], now, 60))
    first = console.file.getvalue().splitlines()[0]
    assert first.startswith("…")
    assert first.endswith("/the-name  running")


def test_bleu_has_its_interval_and_its_signature():
    score = {"bleu": 27.3, "bleu_low": 26.5, "bleu_high": 28.1}
    last = validated(80, 2.4, bleu_signature="nrefs:1|tok:13a", **score)
    text = shown(going(validations=(last,)), BEGAN + 101)
    assert "BLEU 27.3 ± 0.8 at step 80" in text
    assert "± is half of its 95 % interval; signature nrefs:1|tok:13a" in text
    assert "BLEU" not in shown(going(validations=(validated(80, 2.4),)), BEGAN + 101)


def test_arithmetic_is_called_arithmetic():
    assert "now   bound by arithmetic: 90 % of the time" in shown(going(), BEGAN + 101)


def test_a_slow_link_between_machines_is_named_with_what_it_costs():
    pair = team(lambda *_: {"exchange": 2.0}, hosts=("a", "b"), steps=20, seconds=3.0)
    text = shown(replace(pair, ends=()), BEGAN + 61)
    assert "bound by the exchange over the network" in text
    assert "without it a step would take" in text
    assert "rank 0 a" in text
    assert "rank 1 b" in text
    assert "▓▓▓" in text


def test_what_the_machines_do_is_shown_with_rates_of_the_last_seconds():
    run = replace(pair(), ends=())
    lines = shown(run, BEGAN + 201).splitlines()
    (alpha,) = [line for line in lines if line.startswith("alpha ")]
    assert re.search(r"^alpha  eth0 ↓ 2026 ↑ 2026 Mbit/s  CPU 48 %  memory 25 %$", alpha), alpha
    assert any(line.startswith("beta ") for line in lines)


def test_gpus_steal_and_silence_are_shown():
    run = replace(sampled(gpus=[gpu()], steal=0.03), ends=())
    assert "GPU 0 100 % 200/250 W  steal 3.0 %  memory 25 %" in shown(run, BEGAN + 201)
    four = [msgspec.structs.replace(gpu(), index=n) for n in range(4)]
    run = replace(sampled(gpus=four), ends=())
    assert "4 GPUs 100 % 800/1000 W" in shown(run, BEGAN + 201)
    assert "no sample for 16 min 40 s" in shown(run, BEGAN + 201 + 1000)


def test_of_a_run_that_is_over_nothing_is_left_and_nobody_is_missed():
    going, over = replace(pair(), ends=()), pair()
    assert over.ends
    assert "alpha  eth0" in shown(going, BEGAN + 201)
    text = shown(over, BEGAN + 5000)
    assert "no sample for" not in text
    assert " left" not in text


def test_findings_are_shown_below_the_verdict():
    run = replace(pair(exchange=0.5), ends=())
    text = shown(run, BEGAN + 201, width=300)
    assert "now   bound by the exchange over the network: 50 % of the time" in text
    assert "found 2 machines are slower than one" in text


@pytest.mark.parametrize("width", [20, 40, 60, 80])
def test_of_a_machine_only_what_fits_is_shown_and_whole(width):
    run = replace(pair(gpus=[gpu()], steal=0.03), ends=())
    lines = shown(run, BEGAN + 201, width).splitlines()
    (line,) = [line for line in lines if line.startswith("alpha")]
    assert len(line) <= width
    assert "…" not in line
    whole = [line for line in shown(run, BEGAN + 201, 300).splitlines() if "CPU" in line][0]
    assert set(line.split("  ")) <= {part.strip() for part in whole.split("  ")} | {"alpha"}


def test_a_run_without_an_update_is_shown_as_well():
    text = shown(healthy_run(steps=0, ends=(), validations=(), saves=()), BEGAN + 1)
    assert "no update yet" in text


def test_what_a_terminal_would_obey_is_not_sent_to_it():
    bad = "\x1b]0;title\x07 \x1b[31mred"
    samples = (Sample(bad, bad, bad),)
    warned = Warned(time=BEGAN, step=1, message=bad)
    run = going(validations=(validated(20, 2.5, samples=samples),), warnings=(warned,))
    text = shown(run, BEGAN + 101)
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "red" in text


@pytest.mark.parametrize("width", [40, 80, 200])
def test_no_line_is_wider_than_the_terminal(width):
    run = going(validations=(validated(20, 2.5, samples=(Sample("a " * 200, "b", "c"),)),))
    assert max(map(len, shown(run, BEGAN + 101, width).splitlines())) <= width


def test_a_bar_is_full_whatever_the_shares():
    for shares in (
        {"compute": 1.0},
        dict.fromkeys(LANE_CAUSES, 0.2),
        {"data": 0.501, "other": 0.499},
    ):
        assert sum(len(piece) for piece, _ in bar(shares, 37)) == 37


def test_a_curve_that_falls_falls_and_gaps_stay_gaps():
    assert sparkline([3.0, 2.0, 1.0], 3) == "█▅▁"
    assert sparkline([3.0, float("nan"), 1.0], 3) == "█ ▁"
    assert sparkline([], 3) == ""
    assert len(sparkline(list(range(1000)), 50)) == 50


@pytest.mark.ranks
def test_on_a_terminal_it_follows_the_run_and_leaves_when_that_ends(tmp_path):
    (tmp_path / "events").mkdir()
    (tmp_path / "config.toml").write_text("[train]\nmax_steps = 200\n")
    file = tmp_path / "events" / "rank-0000.jsonl"
    now = time.time()
    lines = [start(time=now), *(step(n, time=now) for n in range(1, 8))]
    file.write_bytes(b"".join(to_line(event) + b"\n" for event in lines))
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "unisono", "watch", str(tmp_path), "--every", "0.1"]
    # Our own end stays open: a terminal that nobody holds may forget what it was told last.
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        assert "step 7 of 200" in until(ours, "step 7 of 200")
        with file.open("ab") as more:
            more.write(to_line(step(8, time=now)) + b"\n")
        until(ours, "step 8 of 200")
        with file.open("ab") as more:
            more.write(to_line(ended(8, time=time.time())) + b"\n")
        until(ours, "finished")
        assert process.wait() == 0
    os.close(ours)
    os.close(theirs)


def until(terminal, words):
    """Read until `words` were shown; a time limit turns waiting into a failure."""
    text, deadline = "", time.monotonic() + 600
    while words not in text:
        assert time.monotonic() < deadline, text
        if select.select([terminal], [], [], 1.0)[0]:
            text += os.read(terminal, 65536).decode("utf-8", "replace")
    return text


def test_money_and_energy_of_the_whole_run_are_shown_where_they_are_known(tmp_path):
    """The GPUs of both machines are sampled; [cost] has a price for the energy, too."""
    prices = '[cost]\nper_machine_hour = 3.6\nper_kwh = 0.5\ncurrency = "EUR"\n'
    measured = write_run(tmp_path / "measured", rich_run(), prices)
    unmeasured = write_run(tmp_path / "unmeasured", replace(rich_run(), machines={}), prices)
    words = lines_of(measured)
    kwh = joules_of(read_run(measured)) / 3.6e6
    assert words["power"].startswith(f"{kwh:,.3f} kWh, ")
    assert " EUR so far, 7.20 an hour; of it " in words["cost"]
    assert "power" not in lines_of(unmeasured)


def lines_of(run):
    """What `watch --once` shows of a run, by the first word of each line."""
    done = CliRunner().invoke(unisono, ["watch", "--once", str(run)])
    assert done.exit_code == 0, done.output
    pairs = (line.partition(" ") for line in done.output.splitlines())
    return {name: rest.strip() for name, _, rest in pairs}
