"""Pictures that compare methods: well-formed, the same every time, and each method in its own colour."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from consmrf.report.canvas import COLORS
from consmrf.report.charts import Panel, bars, lines
from consmrf.study.document import Picture, standalone

ORDER = ("wave", "paper", "dmf")
BARS = {
    "AUC": {
        "a <1>": {"wave": (0.9, 0.88, 0.92), "dmf": (0.8, None, None)},
        "b": {"wave": (0.45, 0.4, 0.5), "dmf": (0.7, 0.6, 0.8)},
    }
}
CURVES = [
    Panel("small range", {"dmf": [(0.021, 0.5), (0.023, 0.6)]}, "seconds", "AUC", log_x=True),
    Panel("wide range", {"wave": [(0.001, 1.0), (50.0, 3.0)], "paper": []}, "seconds", "s", True, True),
    Panel("threads", {"wave": [(2, 1.0), (1, 3.0)]}, "threads", "seconds", ticks=(1, 2)),
    Panel("one point", {"wave": [(2, 1.0)]}, "threads", "seconds"),
]
PICTURES = [
    lambda: bars(BARS, ORDER, "bars", chance={"AUC": 0.5}),
    lambda: lines(CURVES, ORDER, "lines"),
]


@pytest.mark.parametrize("draw", PICTURES)
def test_a_picture_is_well_formed_and_always_the_same(draw):
    svg = draw()
    ElementTree.fromstring(svg)
    assert svg == draw()
    assert "mathdefault" not in svg
    assert not re.search(r"https?://", svg)


@pytest.mark.parametrize("draw", PICTURES)
def test_a_picture_stands_alone_as_a_file(draw):
    text = standalone(Picture("p", draw(), "under it"))
    assert ElementTree.fromstring(text.encode()).tag == "{http://www.w3.org/2000/svg}svg"


def test_a_method_keeps_its_colour_when_another_has_no_bars():
    svg = bars(BARS, ORDER, "bars")
    assert COLORS[0] in svg
    assert COLORS[1] not in svg
    assert COLORS[2] in svg
    assert ">paper<" not in svg


def test_the_words_of_a_picture_are_its_figures():
    words = re.search(r'aria-label="([^"]*)"', bars(BARS, ORDER, "bars"))[1]
    assert "AUC, a &lt;1&gt;, wave: 0.900" in words
    words = re.search(r'aria-label="([^"]*)"', lines(CURVES, ORDER, "lines"))[1]
    assert "threads, seconds by threads: wave from 3 to 1" in words


def test_a_small_part_of_a_decade_still_has_a_number():
    svg = lines(CURVES[:1], ORDER, "small")
    assert re.search(r">0\.02\d*<", svg)
