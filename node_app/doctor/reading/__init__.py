"""Collects the facts that `judging` judges, from this machine, the site and a running node.

Invariants: every wait has a deadline and every answer a size limit. No file and no process is left behind. The site
gets neither token nor key; a running node is asked with its own local token. If a package may be missing, the function
that needs it imports it, so that the doctor can report its absence.
"""
