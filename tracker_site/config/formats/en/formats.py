"""Formats of dates and times: short enough for a column, sortable, and in UTC for every user."""

DATE_FORMAT = "Y-m-d"
DATETIME_FORMAT = "Y-m-d H:i:s"
