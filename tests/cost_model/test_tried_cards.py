"""What is said about cards, and that the table of the docs is the list in the package."""

import re
from pathlib import Path

from unisono.cost_model.tried_cards import TRIED_CARDS, TriedCard, untried_card

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "gpus.md"


def rows_of(page):
    """Return the rows of the table of what has run; a dash stands for nothing."""
    table = page.partition("## What has run on which card")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| *(.*?) *\| *(.*?) *\| *(.*?) *\|$", table, re.MULTILINE)
    return [row for row in rows[2:] if row[0] != "–"]


def test_the_table_of_the_docs_is_the_list_in_the_package():
    listed = [(one.card, one.what, one.date) for one in TRIED_CARDS]
    assert rows_of(PAGE.read_text("utf-8")) == listed


def test_a_row_is_seen():
    page = "## What has run on which card\n\n| card | what ran | date |\n|---|---|---|\n"
    assert rows_of(page + "| A100 | selftest | 2027-01-01 |\n\n## Install\n") == [
        ("A100", "selftest", "2027-01-01")
    ]


def test_a_card_that_nobody_tried_is_named_and_a_tried_one_is_not():
    tried = (TriedCard("A100", "selftest", "2027-01-01"),)
    assert "have not run Unisono on a Tesla T4 yet" in untried_card("Tesla T4", tried)
    assert untried_card("NVIDIA A100-SXM4-40GB", tried) == ""
