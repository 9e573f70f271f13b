"""The chat page: the gateway's face for people.

Invariants: only signed-in users chat; conversations stay in their browser; the page loads nothing from elsewhere and
puts model output into the document as text only.
"""
