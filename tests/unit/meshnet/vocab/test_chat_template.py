"""Chat templates: the usual ones render, hostile ones are contained."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from meshnet.vocab import VocabularyError
from meshnet.vocab.chat_template import ChatTemplate

NOW = datetime(2031, 2, 3, tzinfo=UTC)
USER = [{"role": "user", "content": "hi"}]


def render(source: str) -> str:
    return ChatTemplate(source, bos_token="<s>", eos_token="</s>").render(USER, now=NOW)


def test_what_templates_use_is_there() -> None:
    source = (
        "{{ bos_token }}{% for m in messages %}{% if loop.index0 > 5 %}{% break %}{% endif %}"
        "[{{ m.role }}]{{ m['content'] | trim }}{{ eos_token }}{% endfor %}"
        "{% if tools is not none %}T{% endif %}{% if add_generation_prompt %}[assistant]{% endif %}"
        "{{ strftime_now('%d %b %Y') }}{{ {'a': '<é>'} | tojson }}"
    )
    assert render(source) == '<s>[user]hi</s>[assistant]03 Feb 2031{"a": "<é>"}'


def test_blocks_leave_no_lines_behind() -> None:
    assert render("{% for m in messages %}\n  {% if true %}\nx\n  {% endif %}\n{% endfor %}\ny") == "x\ny"


@pytest.mark.parametrize(
    "source",
    [
        "{{ raise_exception('roles must alternate') }}",
        "{{ messages.append(1) }}",
        "{{ messages.__class__.__mro__ }}",
        "{{ ''.__class__.__base__.__subclasses__() }}",
        "{{ raise_exception.__globals__.x }}",
        "{{ messages[9].content.x }}",
        "{{ 1 / 0 }}",
        "{{ 'x' + 1 }}",
        "{% for i in range(10000000) %}{% endfor %}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    ],
)
def test_a_template_that_fails_or_reaches_out_is_refused(source: str) -> None:
    with pytest.raises(VocabularyError) as caught:
        render(source)
    assert caught.value.code == "template_refused"
    assert "hi" not in caught.value.message.split()


@pytest.mark.parametrize("source", ["{% for %}", "{{", "x" * 300_000])
def test_what_is_no_template_is_refused_at_once(source: str) -> None:
    with pytest.raises(VocabularyError) as caught:
        ChatTemplate(source, bos_token="", eos_token="")
    assert caught.value.code == "template_invalid"
