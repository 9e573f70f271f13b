"""How a person installs what is missing.

Invariants: pure, and needs nothing but Python. Only ever from Meshnet's own folder: no registry carries the package, so
its bare name would fetch whatever stands there.
"""

from __future__ import annotations


def installing(extra: str) -> str:
    """Return the advice that brings what an extra of the package names."""
    return f"in Meshnet's folder: .venv/bin/pip install -e '.[{extra}]'"
