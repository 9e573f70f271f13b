"""Ratios as dots: where they fall, what is marked, what lies outside."""

from __future__ import annotations

from tests.bench.plot import CELLS, plot_ratios


def test_dots_fall_where_the_ratios_are_and_the_median_is_marked() -> None:
    line, axis = plot_ratios({"split": [0.8, 1.0, 1.0, 1.2, 1.2]})
    dots = line.removeprefix("split  ").removesuffix("  1.000")
    assert dots == "·" + " " * 19 + "|" + " " * 19 + ":"
    assert axis.split() == ["0.80", "1.00", "1.20", "median"]


def test_what_lies_outside_is_drawn_at_the_edges() -> None:
    (line, _) = plot_ratios({"a": [0.1, 0.9, 7.0]})
    assert line[len("a  ")] == "·"
    assert line[len("a  ") + CELLS - 1] == "·"


def test_nothing_measured_gives_the_axis_alone() -> None:
    assert len(plot_ratios({"a": []})) == 1
