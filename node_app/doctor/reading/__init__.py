"""Where the facts come from.

Invariants: every wait has a deadline and every answer a bound; nothing is written, started for good, or sent a token
that is not its own. Imports of what may be missing are made where they are needed, so that their absence is a finding.
"""
