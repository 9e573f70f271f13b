"""One way to write times, short enough for a column, sortable, and the same for everybody (UTC)."""

DATE_FORMAT = "Y-m-d"
DATETIME_FORMAT = "Y-m-d H:i:s"
