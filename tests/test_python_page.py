"""The examples of the page for Python users, executed as they stand."""

import re
from pathlib import Path

import pytest

import unisono

PAGE = Path(__file__).parents[1] / "docs" / "how-to" / "python.md"
TEXT = PAGE.read_text("utf-8")


def test_the_page_names_every_function():
    functions = re.findall(r"^\| `(\w+)\(", TEXT, re.MULTILINE)
    offered = [name for name in unisono.__all__ if name.islower()]
    assert sorted(functions) == sorted(offered)


@pytest.mark.ranks
def test_the_examples_of_the_page_run_from_top_to_bottom(
    tmp_path, monkeypatch, capsys, one_core
):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 7
    namespace = {}
    for block in blocks:
        exec(compile(block, PAGE.name, "exec"), namespace)
    told = capsys.readouterr().out
    assert "did you mean `max_steps`?" in told
    assert namespace["run"].answers["duration"].verdict == "finished"
    assert len(namespace["translations"]) == 2
    assert namespace["best_step"] in (30, 60)
    losses = [float(loss) for loss in re.findall(r"update \d+: loss ([\d.]+)", told)]
    assert len(losses) == 3
    assert losses[0] > losses[-1]
