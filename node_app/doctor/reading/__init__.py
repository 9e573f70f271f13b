"""Where the facts come from.

Invariants: every wait has a deadline and every answer a bound; nothing is left behind or running; the site is sent
neither token nor key, and a running node is asked with its own local token. Imports of what may be missing are made
where they are needed, so that their absence is a finding.
"""
