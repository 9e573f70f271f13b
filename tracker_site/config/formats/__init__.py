"""Formats in which Django writes dates and times, by language (`FORMAT_MODULE_PATH`)."""
