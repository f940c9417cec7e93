"""What a person sees of a run."""

import re

from support.tiny import tiny_settings
from unisono.cli.screen import Screen
from unisono.records.events import RolledBack, Started, StepTaken, Validated

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
    line = shown(tmp_path, capsys, STARTED, step(500))[1]
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


def test_a_log_file_is_not_filled_with_lines(tmp_path, capsys):
    lines = shown(tmp_path, capsys, STARTED, *(step(number) for number in range(1, 200)))
    assert len(lines) == 2


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
    )
    line = shown(tmp_path, capsys, STARTED, validated)[1]
    assert "validation at step 100: loss 1.5000  BLEU 31.25  (best so far)" in line
