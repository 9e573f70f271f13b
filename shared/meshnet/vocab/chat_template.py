"""Renders a model's chat template, which is code from an unknown author.

Invariants: the template runs in a sandbox. It cannot reach Python's internals, change its inputs or loop over huge
ranges. If it raises anything, one `VocabularyError` is raised instead, which repeats no text of the conversation.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from meshnet.vocab.errors import VocabularyError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from jinja2 import Template

TEMPLATE_LENGTH_MAX: Final = 256 * 1024  # characters


class ChatTemplate:
    """A compiled chat template. Several threads may use it."""

    def __init__(self, source: str, *, bos_token: str, eos_token: str) -> None:
        """Compile the template.

        Raises:
            VocabularyError: `template_invalid` if it is too long or not a template.
        """
        self._template = _compile(source)
        self._bos_token = bos_token
        self._eos_token = eos_token

    def render(self, messages: Sequence[Mapping[str, str]], *, now: datetime) -> str:
        """Return the conversation as one text, up to the point at which the assistant's answer begins.

        Args:
            messages: each has `role` and `content`.
            now: local time, for templates that state the date.

        Raises:
            VocabularyError: `template_refused` if the template does not accept this conversation.
        """
        from jinja2 import TemplateError  # noqa: PLC0415 - only who renders needs jinja2

        try:
            return self._template.render(
                messages=[dict(message) for message in messages],
                add_generation_prompt=True,
                bos_token=self._bos_token,
                eos_token=self._eos_token,
                strftime_now=now.strftime,
                tools=None,
                documents=None,
            )
        except (TemplateError, ArithmeticError, LookupError, TypeError, ValueError, AttributeError, RecursionError):
            message = (
                "The model's chat template does not accept this conversation; most need user and assistant in turn."
            )
            raise VocabularyError("template_refused", "Conversation refused", message) from None


def _compile(source: str) -> Template:
    from jinja2 import TemplateError  # noqa: PLC0415 - only who renders needs jinja2
    from jinja2.sandbox import ImmutableSandboxedEnvironment  # noqa: PLC0415

    if len(source) > TEMPLATE_LENGTH_MAX:
        raise VocabularyError("template_invalid", "Chat template invalid", "The model's chat template is too long.")
    # Block trimming and loop controls are set as in transformers, the renderer that templates are written for.
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise_exception
    try:
        return environment.from_string(source)
    except TemplateError:
        message = "The model's chat template cannot be compiled."
        raise VocabularyError("template_invalid", "Chat template invalid", message) from None


def _to_json(value: object, indent: int | None = None) -> str:
    """Return plain JSON, as models saw it in training; jinja2's own `tojson` would escape it for HTML."""
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _raise_exception(message: str) -> None:
    raise ValueError(message)
