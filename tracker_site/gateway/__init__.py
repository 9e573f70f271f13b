"""The life of one generation: admitted, routed, run, delivered, settled. Used by both faces (API and chat).

Invariants: a generation's hold is settled or released exactly once, whatever happens to client, route or database
deadline; every phase has a deadline; nothing queues beyond the token window; no text of prompt or completion is stored
or logged. `settlement`, `telemetry_board` and `admission` are pure.
"""
