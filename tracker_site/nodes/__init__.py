"""Volunteers' nodes: enrolment, presence, what they have loaded, and the control connection to each."""
