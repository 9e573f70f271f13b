"""Formats of dates and times if the language is English."""
