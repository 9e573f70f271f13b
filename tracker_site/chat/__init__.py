"""The chat page: one of the two faces of the gateway, for people.

Invariants: only signed-in users can chat. Their conversations stay in their browser. The page loads nothing from other
hosts and inserts model output into the document as text only.
"""
