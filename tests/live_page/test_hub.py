"""What a browser is sent that has some version of the page."""

import json

from hypothesis import given
from hypothesis import strategies as st

from unisono.live_page.hub import Hub
from unisono.live_page.patches import patched


def read(message):
    identity, data, *rest = message.decode().split("\n")
    assert rest == ["", ""]
    return identity.removeprefix("id: "), json.loads(data.removeprefix("data: "))


class Browser:
    """Keeps the parts as the script of the page does."""

    def __init__(self):
        self.parts, self.identity = {}, ""

    def hear(self, hub):
        known = hub.known(self.identity)
        if known < hub.version:
            for message in hub.since(known).split(b"\n\n")[:-1]:
                self.identity, patches = read(message + b"\n\n")
                for name, patch in patches.items():
                    whole = patch.get("whole")
                    text = patched(self.parts[name], patch) if whole is None else whole
                    self.parts[name] = text


changes = st.dictionaries(st.sampled_from("abc"), st.text(alphabet="xy\n", max_size=8))


@given(st.lists(st.tuples(changes, st.booleans(), st.booleans())))
def test_browsers_that_hear_all_or_miss_some_end_with_the_same_page(rounds):
    hub, browsers, parts = Hub(), (Browser(), Browser()), {}
    for new, *listening in rounds:
        hub.update(new)
        parts |= new
        for browser, listens in zip(browsers, listening, strict=True):
            if listens:
                browser.hear(hub)
    for browser in browsers:
        browser.hear(hub)
        assert browser.parts == parts


def test_who_is_a_little_behind_gets_patches_and_who_is_far_behind_whole_parts():
    hub = Hub()
    hub.update({"a": "x" * 1000, "b": "y"})
    for number in range(1, 50):
        hub.update({"a": "x" * 1000 + str(number)})
    assert len(hub.since(47)) < 200
    assert b"whole" not in hub.since(47)
    assert set(read(hub.since(10))[1]) == {"a"}
    assert b"whole" in hub.since(10)


def test_what_is_the_same_is_no_news():
    hub = Hub()
    assert hub.update({"a": "x", "b": "y"})
    assert not hub.update({"a": "x"})
    assert hub.update({"a": "x", "b": "z"})
    assert read(hub.since(1))[1] == {"b": {"set": [[0, 0, 0, "z"]]}}


def test_the_version_of_another_server_counts_for_nothing():
    hub, other = Hub(), Hub()
    hub.update({"a": "x"})
    other.update({"a": "y"})
    identity, _ = read(hub.since(0))
    assert hub.known(identity) == 1
    assert other.known(identity) == 0
    for wrong in ("", "x", f"{hub.epoch}-2", f"{hub.epoch}--1", f"{hub.epoch}-{'9' * 5000}"):
        assert hub.known(wrong) == 0
