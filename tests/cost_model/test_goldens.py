"""What `simulate` and `check` have said so far: a number moves only with a reason."""

import json

import pytest

from cost_model.goldens import PLACE, numbers, pages


def flat(value, place=""):
    """Yield every number and text with the place where it stands."""
    if isinstance(value, dict):
        for key, one in value.items():
            yield from flat(one, f"{place}/{key}")
    elif isinstance(value, list):
        for number, one in enumerate(value):
            yield from flat(one, f"{place}/{number}")
    else:
        yield place, value


def same(before, now):
    return now == (pytest.approx(before, rel=1e-8) if isinstance(before, float) else before)


def test_no_number_has_moved():
    before = dict(flat(json.loads((PLACE / "numbers.json").read_text())))
    now = dict(flat(numbers()))
    missing = before.keys() - now.keys()
    assert not missing
    moved = {
        place: (value, now[place])
        for place, value in before.items()
        if not same(value, now[place])
    }
    assert not moved


def test_the_pages_read_as_before():
    assert pages() == (PLACE / "pages.txt").read_text()
