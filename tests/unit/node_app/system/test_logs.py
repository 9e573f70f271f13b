"""Log lines: one JSON object each, and the last ones kept within bounds."""

from __future__ import annotations

import json
import logging

from node_app.system.logs import RECENT_LINE_LENGTH_MAX, RECENT_LINES_MAX, JsonFormatter, RecentLines


def record(message: str, *arguments: object) -> logging.LogRecord:
    return logging.LogRecord("node_app.x", logging.INFO, __file__, 1, message, arguments, None)


def test_a_log_line_is_one_json_object() -> None:
    line = JsonFormatter().format(record("two\nlines %d", 2))
    assert "\n" not in line
    fields = json.loads(line)
    assert (fields["level"], fields["logger"], fields["message"]) == ("info", "node_app.x", "two\nlines 2")


def test_the_last_lines_are_kept_and_the_oldest_go() -> None:
    recent = RecentLines()
    for number in range(RECENT_LINES_MAX + 5):
        recent.handle(record("line %d", number))
    lines = recent.tail()
    assert len(lines) == RECENT_LINES_MAX
    assert lines[0].endswith("INFO    line 5")
    assert lines[-1].endswith(f"line {RECENT_LINES_MAX + 4}")


def test_a_long_line_is_cut_and_a_record_of_several_lines_counts_as_several() -> None:
    recent = RecentLines()
    recent.handle(record("first\n" + "x" * 2000))
    first, second = recent.tail()
    assert first.endswith("first")
    assert second == "x" * RECENT_LINE_LENGTH_MAX


def test_a_record_that_cannot_be_formatted_ends_nobody() -> None:
    recent = RecentLines()
    seen: list[logging.LogRecord] = []
    recent.handleError = seen.append  # type: ignore[method-assign]
    wrong = record("%d", "no number")
    recent.handle(wrong)
    assert seen == [wrong]
    assert recent.tail() == []
