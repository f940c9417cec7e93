"""The picture of `unisono simulate`."""

import math
from xml.etree import ElementTree

import pytest

from unisono.check.plot import plot_of
from unisono.check.simulate import SimulatedJob, simulate_run
from unisono.cost_model.exchange import nominal_link
from unisono.models.settings import PRESETS, TransformerSettings

JOB = SimulatedJob(TransformerSettings(**PRESETS["base"]), 32000, 32768, 28, 1e13, 100_000)
SVG = "{http://www.w3.org/2000/svg}"


def drawn(nodes, title="base"):
    found = simulate_run(JOB, nodes, 1, nominal_link(1e9)).found.by_machines
    return found, ElementTree.fromstring(plot_of(found, title))


def dots(picture, kind):
    return [
        (float(one.get("cx")), float(one.get("cy")))
        for one in picture.iter(f"{SVG}circle")
        if kind in one.get("class").split()
    ]


def test_every_way_has_its_curve_and_every_number_its_ring():
    found, picture = drawn([1, 2, 4, 8])
    words = [one.text for one in picture.iter(f"{SVG}text")]
    for name in ("ddp", "16-bit", "8-bit", "4-bit", "diloco"):
        assert name in words
    for count in ("1", "2", "4", "8"):
        assert count in words
    # Five ways, each at one machine and at three more numbers.
    assert len(dots(picture, "dot")) == 5 * 4
    assert len(dots(picture, "ring")) == len(found) - 1


def test_twice_as_fast_is_always_as_much_higher():
    found, picture = drawn([1, 2, 4, 8])
    places = dots(picture, "first")
    for outlook, (_, y) in zip(found[1:], places[1:], strict=True):
        octave = (places[0][1] - y) / math.log2(outlook.exact.speedup)
        assert octave == pytest.approx(octave_of(picture), rel=0.02)


def octave_of(picture):
    """Return how much higher the line of two is than that of one."""
    heights = {one.text: float(one.get("y")) for one in picture.iter(f"{SVG}text")}
    return heights["1 ×"] - heights["2 ×"]


def test_hours_beside_the_speed_are_those_of_the_run():
    found, picture = drawn([1, 2])
    words = [one.text for one in picture.iter(f"{SVG}text")]
    hours = found[0].exact.hours
    assert f"{hours:.3g} h" in words
    assert f"{hours / 2:.3g} h" in words


@pytest.mark.parametrize("nodes", [[1], [1, 1024]])
def test_one_number_and_very_many_stay_on_the_paper(nodes):
    _, picture = drawn(nodes)
    for x, y in dots(picture, "dot") + dots(picture, "ring"):
        assert 0 < x < float(picture.get("width"))
        assert 0 < y < float(picture.get("height"))


def test_a_picture_needs_nothing_else_and_suits_light_and_dark():
    _, picture = drawn([1, 2], title="a <b> & c")
    text = ElementTree.tostring(picture, encoding="unicode")
    assert "prefers-color-scheme: dark" in text
    assert "href" not in text
    assert "url(" not in text
    assert picture.find(f"{SVG}title").text == "a <b> & c"
