"""Credits: a double-entry ledger in integer micro-credits, holds, settlement and prices. It knows no routes."""
