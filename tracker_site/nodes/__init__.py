"""Volunteers' nodes: enrolment, presence, and what they have loaded."""
