"""Panels on paper: higher is higher, and paths hold the numbers themselves."""

import re

import pytest

from unisono.report.drawing import draw
from unisono.report.panel import Columns, Curve, Layer, Mark, Panel, Span, digits_for

SPAN = Span(0.0, 10.0)


def placed(drawing, step, value):
    """Where a step and a value come to lie, by the transform of the drawing."""
    a, b, c, d, e, f = map(float, drawing.transform[7:-1].split())
    return a * step + c * value + e, b * step + d * value + f


def test_paths_hold_the_numbers_and_the_transform_their_places():
    curve = Curve("loss", [(0.0, 3.25), (10.0, 2.0)], "first")
    drawing = draw(Panel("Loss", "nats", [curve], bounds=(2.0, 4.0)), SPAN)
    assert drawing.curves[0].path == "M0 3.25L10 2"
    assert placed(drawing, 0, 4.0) == pytest.approx((0, 0))
    assert placed(drawing, 10, 2.0) == pytest.approx((1000, 100))
    assert drawing.curves[0].shown == "2.000"


def test_ticks_and_labels_lie_where_the_curve_lies():
    curve = Curve("loss", [(0.0, 2.0), (8.0, 4.0)], "first")
    mark = Mark((8.0, 3.0), "best", "first")
    drawing = draw(Panel("", "", [curve], marks=[mark], bounds=(2.0, 4.0)), SPAN)
    assert [(tick.label, tick.place) for tick in drawing.ticks][::2] == [
        ("2.0", 100.0),
        ("3.0", 50.0),
        ("4.0", 0.0),
    ]
    assert (drawing.labels[0].left, drawing.labels[0].top) == (80.0, 50.0)
    assert drawing.labels[0].side == "left"


def test_columns_stand_on_each_other():
    layers = (Layer("a", "forward", (1.0, 2.0), "1.5"), Layer("b", "rest", (3.0, 1.0), "2"))
    drawing = draw(Panel("", "", columns=Columns((0.0, 5.0, 10.0), layers)), SPAN)
    below, above = drawing.layers
    assert below.path == "M0 0V1H5V2H10V0Z"
    assert above.path == "M0 0V4H5V3H10V0Z"
    assert placed(drawing, 0, 4.0)[1] > 0  # the highest has room


def test_one_value_all_along_is_drawn_in_the_middle():
    drawing = draw(Panel("", "", [Curve("", [(1.0, 7.0), (9.0, 7.0)], "first")]), SPAN)
    assert placed(drawing, 1, 7.0)[1] == pytest.approx(50)


def test_a_band_goes_there_and_back():
    curve = Curve("", [(1.0, 5.0), (2.0, 6.0)], "first", band=[(1, 4, 6), (2, 5, 7)])
    assert draw(Panel("", "", [curve]), SPAN).curves[0].band == "M1 6L2 7L2 5L1 4Z"


def test_a_lone_point_is_a_dot():
    drawing = draw(Panel("", "", [Curve("", [(1.0, 5.0)], "first")]), SPAN)
    assert drawing.curves[0].dots == "M1 5h0"


def test_numbers_in_paths_are_exact_enough():
    points = [(123_457.0, 0.123456), (1_234_567.0, 98_765.4)]
    path = draw(Panel("", "", [Curve("", points, "first")]), Span(0, 2e6)).curves[0].path
    found = [float(number) for number in re.findall(r"[\d.]+", path)]
    assert found == pytest.approx([123_457, 0.123456, 1_234_567, 98_765.4])


def test_what_has_nothing_is_empty():
    assert Panel("", "").is_empty
    assert Panel("", "", [Curve("", [], "first")]).is_empty
    assert not Panel("", "", [Curve("", [(1.0, 1.0)], "first")]).is_empty


@pytest.mark.parametrize(
    ("largest", "digits"), [(0.123, 3), (2.5, 2), (25, 1), (250, 0), (0.0, 2), (0.0123, 4)]
)
def test_numbers_have_three_digits(largest, digits):
    assert digits_for(largest) == digits
