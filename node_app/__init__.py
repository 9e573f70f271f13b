"""The volunteer's node: agent, worker supervisor and tray.

Invariant: imports `meshnet`, never `tracker_site`.
"""
