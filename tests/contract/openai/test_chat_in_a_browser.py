"""What a model writes, shown in a real browser: Markdown's little and text, never markup; and failures in words."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import Browser, expect

from tests.browsing import Person, a_browser, a_person
from tests.contract.openai.site_program import HOSTILE_ANSWER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.contract.openai.conftest import LiveSite

pytestmark = pytest.mark.browser

PASSWORD = "a long pass phrase"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with a_browser() as browser:
        yield browser


@pytest.fixture
def person(site: LiveSite, browser: Browser) -> Iterator[Person]:
    with a_person(browser, site.url) as person:
        person.sign_in("alice", PASSWORD)
        yield person


def test_what_a_model_writes_never_becomes_markup(person: Person) -> None:
    person.part("model").select_option("hostile")
    person.ask("hello")
    person.wait_for_end()
    for _ in range(2):
        assert person.page.locator("#messages :is(script, img, iframe, style, a, b)").count() == 0
        expect(person.answer.locator("strong")).to_have_text("bold")
        expect(person.answer.locator("pre code")).to_have_text(
            "<iframe src=\"javascript:document.title='taken'\"></iframe>"
        )
        shown = person.answer.inner_text()
        for line in HOSTILE_ANSWER.splitlines():
            if line and not line.startswith("```") and "**" not in line:
                assert line in shown
        expect(person.page).to_have_title("Chat - Meshnet")
        expect(person.part("composer")).to_be_visible()
        person.page.reload()  # and again from what the browser kept


def test_a_stored_conversation_that_was_tampered_with_is_text_or_nothing(person: Person) -> None:
    key = f"meshnet-conversation-{person.part('chat').get_attribute('data-user')}"
    for stored, shown in [
        ('[{"role":"assistant","content":"<img src=x>"},{"role":"<b>","content":"x"},{"role":"user"},null]', 1),
        ('{"length": 3}', 0),
        ("[[[", 0),
        ('"text"', 0),
    ]:
        person.page.evaluate("([key, stored]) => localStorage.setItem(key, stored)", [key, stored])
        person.page.reload()
        assert person.page.locator(".message").count() == shown
        assert person.page.locator("#messages img").count() == 0
        expect(person.prompt).to_be_enabled()
    assert [text for text in person.complaints if "cannot be read" not in text] == []


def test_a_numbered_list_keeps_its_numbers_across_blank_lines_and_text(person: Person) -> None:
    key = f"meshnet-conversation-{person.part('chat').get_attribute('data-user')}"
    answer = "Three:\n\n1. one\n\n2. two\n\nAnd then:\n\n3. three\n4. four\n\n- other"
    stored = json.dumps([{"role": "assistant", "content": answer}])
    person.page.evaluate("([key, stored]) => localStorage.setItem(key, stored)", [key, stored])
    person.page.reload()
    lists = person.answer.locator("ol, ul").evaluate_all(
        "all => all.map(one => [one.tagName, one.start ?? null, [...one.children].map(item => item.textContent)])"
    )
    assert lists == [["OL", 1, ["one", "two"]], ["OL", 3, ["three", "four"]], ["UL", None, ["other"]]]


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("lost", '^The machine "node-1" left in the middle of the answer'),
        ("lost-early", '^The machine "node-0" left'),
        ("no-route", "^No set of machines can serve this model"),
    ],
)
def test_a_failure_is_told_in_words_and_the_page_goes_on(person: Person, model: str, words: str) -> None:
    person.part("model").select_option(model)
    person.ask("hello")
    expect(person.part("failure")).to_have_text(re.compile(words))
    expect(person.note).to_have_text(re.compile(words))
    person.wait_for_end()
    person.part("model").select_option("ends")
    person.page.get_by_role("button", name="Try again").click()
    expect(person.answer).to_have_text("hello")
    expect(person.part("failure")).to_be_hidden()


def test_a_conversation_can_be_begun_anew(person: Person) -> None:
    person.part("model").select_option("ends")
    person.ask("hello")
    person.wait_for_end()
    person.page.get_by_role("button", name="New conversation").click()
    expect(person.page.locator(".message")).to_have_count(0)
    expect(person.part("welcome")).to_be_visible()
    expect(person.prompt).to_be_focused()


def test_another_user_of_the_same_browser_sees_nothing_of_the_conversation(site: LiveSite, person: Person) -> None:
    person.part("model").select_option("ends")
    person.ask("for alice only")
    person.wait_for_end()
    person.page.get_by_role("button", name="Sign out alice").click()
    person.sign_in("bob", PASSWORD)
    expect(person.part("welcome")).to_be_visible()
    assert "for alice only" not in person.page.content()


def test_a_form_that_is_older_than_the_sign_in_says_what_to_do(site: LiveSite, person: Person) -> None:
    person.part("model").select_option("ends")
    other = person.context.new_page()
    other.goto(f"{site.url}/chat/")
    other.get_by_role("button", name="Sign out alice").click()
    other.get_by_label("Username").fill("bob")
    other.get_by_label("Password").fill(PASSWORD)
    other.get_by_role("button", name="Sign in").click()
    other.wait_for_url("**/account/**")
    person.ask("hello")
    expect(person.part("failure")).to_have_text("Your sign-in has changed. Reload the page.")
