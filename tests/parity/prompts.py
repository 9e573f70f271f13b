"""The eight prompts that are compared: scripts, emoji, code, figures, a single letter, and one of over 1,000 tokens."""

# ruff: noqa: RUF001 - letters of other scripts are what is wanted here

from __future__ import annotations

_PARAGRAPH = (
    "A river carries sand from the hills to the sea. Where it runs fast it lifts the grains, and where it slows it "
    "lets them fall, the coarse ones first. In spring the water stands high and covers the meadows; what it leaves "
    "behind feeds the grass. The villages keep their distance, all but the mill, which wants the current close. "
)

LONG_PROMPT = "".join(f"{number}. {_PARAGRAPH}" for number in range(1, 15)) + "What does the river leave behind?"
LONG_PROMPT_TOKENS_MIN = 1000

PROMPTS: tuple[str, ...] = (
    "Why is the sky blue? Answer in two sentences.",
    "用中文解释一下什么是光合作用，并举一个例子。日本語でも説明してください。",
    "Tell a story with these: 🦊🌧️🏰👨‍👩‍👧‍👦🇪🇺 and end it with 🎉.",
    'def fibonacci(n: int) -> list[int]:\n    """The first n numbers."""\n\n# Finish this function, please.',
    "Что такое «энтропия»? Ответьте коротко. Τι είναι η εντροπία; ما هي الإنتروبيا؟",
    'Read {"a": [1, 2.5e-3, null], "b": "x\\ty"} and compute 17 * 23 - 1004 / 4.',
    "k",
    LONG_PROMPT,
)
