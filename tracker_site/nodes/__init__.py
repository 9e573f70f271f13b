"""Volunteers' nodes: enrolment, presence, and the shards that they have loaded."""
