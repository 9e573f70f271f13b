"""Credits: a double-entry ledger in integer micro-credits, holds, settlement and prices; independent of routes."""
