"""The chat page, through which people use the Gateway; programs use the OpenAI API.

Invariants: only signed-in users can chat. Their conversations stay in their browser. The page loads nothing from other
hosts and inserts model output into the document as text only.
"""
