"""The reference is generated from the code: a stale page is an error."""

import re
from pathlib import Path

from unisono.cli import VERBS
from unisono.cli.reference import reference

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])


def test_the_page_of_commands_is_up_to_date():
    shown = (ROOT / "docs" / "commands.md").read_text("utf-8")
    assert shown == reference(), "run `make docs`"


def test_every_verb_is_on_the_page():
    for verb in VERBS:
        assert f"## unisono {verb}" in reference()


def test_no_page_points_to_a_file_that_is_not_there():
    for page in PAGES:
        for link in re.findall(r"\]\((?!http)([^)#]+)\)", page.read_text("utf-8")):
            assert (page.parent / link).exists(), f"{page.name}: {link}"
