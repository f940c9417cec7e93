"""What has changed between two texts: small, and right whatever the texts are."""

import json

from hypothesis import given
from hypothesis import strategies as st

from unisono.live_page.patches import patch_of, patched

letters = st.text(alphabet="ab\n<>é😀", max_size=40)


@given(letters, letters)
def test_a_patch_makes_the_new_text_from_the_old(before, after):
    patch = json.loads(json.dumps(patch_of(before, after)))
    assert patched(before, patch) == after


@given(letters, letters)
def test_the_script_counts_places_as_python_does(before, after):
    """JavaScript counts a letter beyond U+FFFF as two, so no place may come after one."""
    for number, begin, end, middle in patch_of(before, after).get("set", ()):
        line = before.split("\n")[number]
        kept = line[:begin] + line[len(line) - end :]
        if any(ord(letter) > 0xFFFF for letter in line + middle):
            assert (begin, end, kept) == (0, 0, "")


def test_what_is_added_to_a_curve_is_all_that_is_sent():
    points = "".join(f"L{n} 2.5" for n in range(1000))
    before = f'<svg>\n<path class="curve" d="M0 3{points}"/>\n</svg>'
    after = before.replace('"/>', 'L1000 2.4"/>')
    patch = patch_of(before, after)
    assert patch == {"set": [[1, len(before.split("\n")[1]) - 3, 3, "L1000 2.4"]]}


def test_lines_that_come_or_go_leave_the_others_alone():
    assert patch_of("a\nb\nc", "a\nx\ny\nc") == {"at": 1, "cut": 1, "put": ["x", "y"]}
    assert patch_of("a\nb\nc", "a\nc") == {"at": 1, "cut": 1, "put": []}
