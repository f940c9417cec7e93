"""What a person sees of a run."""

import os
import pty
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from support.tiny import tiny_settings
from unisono.cli.pages.progress import Screen
from unisono.records import events
from unisono.records.events import RolledBack, Sample, Started, StepTaken, Validated

STARTED = Started(
    time=0.0,
    step=0,
    rank=0,
    size=2,
    local_rank=0,
    host="here",
    pid=1,
    device="cpu",
    threads=1,
    strategy="ddp",
    parameters=1234567,
    updates_per_epoch=50,
)


def step(number, **changes):
    told = {
        "time": 0.0,
        "step": number,
        "epoch": 1,
        "loss": 2.0,
        "gradient_norm": 1.0,
        "learning_rate": 3e-4,
        "target_tokens": 4000,
        "source_tokens": 4000,
        "positions": 8000,
        "sentences": 100,
        "seconds": 0.5,
    }
    return StepTaken(**{**told, **changes})


def shown(tmp_path, capsys, *events, **train):
    with Screen(tiny_settings(tmp_path, train={"max_steps": 1000, **train})) as screen:
        for event in events:
            screen.show(event)
    return capsys.readouterr().err.splitlines()


def test_a_line_tells_all_a_person_asks_for(tmp_path, capsys):
    steps = step(499), step(500)  # the first tells nothing about the time left
    line = shown(tmp_path, capsys, STARTED, *steps, show_every_steps=500)[1]
    for part in (
        r"50 %",
        r"step 500",
        r"loss 2\.000",
        r"ppl 7\.4",
        r"lr 3\.00e-04",
        r"8,000 target tokens/s",
        r"0\.5.? ?s/step|500 ms/step",
        r"left$",
    ):
        assert re.search(part, line), (part, line)


def test_the_first_update_is_no_measure_for_the_others(tmp_path, capsys, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    with Screen(tiny_settings(tmp_path, train={"max_steps": 1000})) as screen:
        screen.show(STARTED)
        for number, moment in ((1, 30.0), (101, 130.0)):
            now[0] = moment
            screen.show(step(number))
    first, second = capsys.readouterr().err.splitlines()[1:]
    assert "left" not in first
    assert second.endswith("14 min 59 s left")


def test_a_log_file_is_not_filled_with_lines(tmp_path, capsys):
    lines = shown(tmp_path, capsys, STARTED, *(step(number) for number in range(1, 200)))
    assert len(lines) == 2


def test_a_line_comes_after_as_many_updates_as_one_asks_for(tmp_path, capsys):
    steps = [step(number) for number in range(1, 200)]
    lines = shown(tmp_path, capsys, STARTED, *steps, show_every_steps=50)
    assert [re.search(r"step (\d+)", line)[1] for line in lines[1:]] == ["50", "100", "150"]


def test_lines_in_a_log_become_rarer_in_a_long_run(tmp_path, capsys, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    seen, many = [], 36 * 3600
    with Screen(tiny_settings(tmp_path, train={"max_steps": many})) as screen:
        screen.show(STARTED)
        for number in range(1, many, 4):
            now[0] = float(number)
            screen.show(step(number))
            seen += [number] if "step" in capsys.readouterr().err.partition("loss")[0] else []
    pauses = [later - before for before, later in pairwise(seen)]
    assert (min(pauses), max(pauses)) == (12, 300)
    assert len(seen) < 600


def test_time_that_was_taken_before_counts(tmp_path, capsys):
    told = {name: getattr(STARTED, name) for name in STARTED.__struct_fields__}
    started = Started(**{**told, "seconds": 1800.0, "step": 499})
    line = shown(tmp_path, capsys, started, step(500), max_steps=0, max_time="1 h")[1]
    assert line.startswith(" 50 %")
    assert line.endswith(("30 min left", "29 min 59 s left", "30 min 00 s left"))


def test_only_the_leading_process_speaks(tmp_path, capsys):
    other = Started(
        **{**{f: getattr(STARTED, f) for f in STARTED.__struct_fields__}, "rank": 1}
    )
    assert shown(tmp_path, capsys, other, step(1)) == []


def test_a_roll_back_is_said(tmp_path, capsys):
    back = RolledBack(
        time=0.0,
        step=900,
        to_step=500,
        reason="the training loss rose from 2.1 to 9.3",
        rate_factor=0.5,
        number=1,
    )
    lines = shown(tmp_path, capsys, STARTED, back, step(501, skipped=True))
    assert "at step 900 the training loss rose from 2.1 to 9.3" in lines[1]
    assert "went back to step 500, with 0.5 of the learning rate" in lines[1]
    assert "step 501 was skipped" in lines[-1]


def test_a_finding_is_said_in_a_line_and_nothing_when_it_is_over(tmp_path, capsys):
    found = events.Found(
        time=0.0, step=50, id="padding", summary="40 % \x1b[31mpadding.", advice="Do less."
    )
    over = events.Found(time=0.0, step=900, id="padding", summary="Padding.", over=True)
    lines = shown(tmp_path, capsys, STARTED, found, over)
    assert lines[1:] == [
        "found at step 50: 40 % \N{REPLACEMENT CHARACTER}[31mpadding. Do less."
    ]


def test_a_validation_is_said_with_its_score(tmp_path, capsys):
    validated = Validated(
        time=0.0,
        step=100,
        loss=1.5,
        bleu=31.25,
        sentences=20,
        target_tokens=9,
        seconds=3,
        best=True,
        samples=(
            Sample("Two dogs run.", "Zwei Hunde rennen.", "Zwei Hunde laufen."),
            Sample("A man.", "Ein Mann.", "Ein Mann."),
        ),
    )
    line, *sample = shown(tmp_path, capsys, STARTED, validated)[1:]
    assert "validation at step 100: loss 1.5000  BLEU 31.25  (best so far)" in line
    assert sample == [
        "  Two dogs run.",
        "    → Zwei Hunde laufen.",
        "      (reference: Zwei Hunde rennen.)",
        "BLEU: signature not recorded",
    ]


def test_bleu_is_shown_with_its_interval_if_it_is_known(tmp_path, capsys):
    test = events.Tested(
        time=0.0,
        step=100,
        bleu=31.25,
        bleu_signature="nrefs:1",
        sentences=20,
        seconds=3,
        bleu_low=30.0,
        bleu_high=33.0,
    )
    line = shown(tmp_path, capsys, STARTED, test)[-1]
    assert "BLEU 31.25 ± 1.50  nrefs:1" in line


def test_the_signature_of_bleu_is_said_once_on_a_screen(tmp_path, capsys):
    score = {"bleu": 31.25, "bleu_low": 30.0, "bleu_high": 33.0, "bleu_signature": "nrefs:1"}
    size = {"sentences": 20, "target_tokens": 9, "seconds": 3}
    two = [Validated(time=0.0, step=n, loss=1.5, **score, **size) for n in (100, 200)]
    text = "\n".join(shown(tmp_path, capsys, STARTED, *two))
    assert text.count("BLEU 31.25 ± 1.50") == 2
    assert text.count("BLEU: ± is half of its 95 % interval; signature nrefs:1") == 1


PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from cli.test_progress import STARTED, Screen, step, tiny_settings

train = {"max_steps": 1000, "show_every_steps": int(sys.argv[2])}
with Screen(tiny_settings(Path(), train=train)) as screen:
    for event in (STARTED, *map(step, range(1, 500))):
        screen.show(event)
"""


@pytest.mark.ranks
def test_on_a_terminal_there_is_a_bar_and_a_line_only_if_asked_for():
    tests = str(Path(__file__).parents[1])
    for every, lines in ((0, 0), (100, 4)):
        here, there = pty.openpty()
        subprocess.run(
            [sys.executable, "-c", PROGRAM, tests, str(every)],
            stderr=there,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
            check=True,
        )
        os.close(there)
        shown = b""
        while piece := _read(here):
            shown += piece
        text = shown.decode()
        assert "━" in text  # the bar
        assert "step 499" in text
        assert len(re.findall(r" \d0 %  step \d00 ", text)) == lines


def _read(terminal):
    try:
        return os.read(terminal, 65536)
    except OSError:  # the other end is closed
        os.close(terminal)
        return b""
