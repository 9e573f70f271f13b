"""The chat page in a real browser against the whole stack: what a person sees, can do, and is told."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Request, Route, expect

from tests.browsing import PHONE, Person, a_browser, a_person
from tests.e2e.conftest import CONTEXT, fake_models
from tests.e2e.processes import until
from tests.e2e.stack import USER, NodePlan, Stack, a_stack
from tests.simulators.fake_engine import END_TOKEN_ID

pytestmark = [pytest.mark.e2e, pytest.mark.native, pytest.mark.browser]

SERVED, UNSERVED, POOR = "served", "unserved", "paul"
# A volunteer chooses the name of a node; it is shown to everybody.
HEAD, TAIL = "anna", "<img src=x onerror=alert(1)>"
HOSTILE = "<script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">**&lt;b&gt;**"
LONG_TOKENS = 20_000


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Two nodes of one model; nobody serves the other."""
    folder = tmp_path_factory.mktemp("chat")
    with a_stack(folder, fake_models(folder, (SERVED, UNSERVED))) as stack:
        stack.create_user(POOR)
        stack.launch_all([NodePlan(HEAD, SERVED, "0:4", CONTEXT), NodePlan(TAIL, SERVED, "4:8", CONTEXT)])
        yield stack


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with a_browser() as browser:
        yield browser


@pytest.fixture
def person(stack: Stack, browser: Browser) -> Iterator[Person]:
    """Somebody with credits, signed in, looking at the chat."""
    with a_person(browser, stack.site_url) as person:
        person.sign_in(USER, stack.passwords[USER])
        person.part("model").select_option(SERVED)
        yield person
    stack.until_idle()


def never_ending(person: Person) -> None:
    """Let the page's requests run long: the end token is biased away on their way to the site."""

    def change(route: Route, request: Request) -> None:
        body = json.loads(request.post_data or "{}") | {
            "logit_bias": {str(END_TOKEN_ID): -100},
            "max_tokens": LONG_TOKENS,
        }
        route.continue_(post_data=json.dumps(body))

    person.page.route("**/chat/stream", change)


def test_an_answer_streams_with_its_route_and_figures(person: Person) -> None:
    never_ending(person)
    person.ask("hello")
    first = person.wait_for_text(1)
    expect(person.part("stop")).to_be_visible()
    expect(person.part("phase")).to_have_text("Answering")
    more = person.wait_for_text(first + 50)
    expect(person.part("prefill-label")).to_have_text(re.compile(r"^Prompt (\d+) / \1 tokens$"))
    expect(person.part("rate")).to_have_text(re.compile(r"^\d+\.\d$"))
    expect(person.part("tokens")).to_have_text(re.compile(r"^[1-9]\d*$"))
    expect(person.part("first-token")).to_have_text(re.compile(r"^\d+(\.\d)? m?s$"))
    stages = person.page.locator(".route .stage")
    expect(stages).to_have_count(2)
    assert stages.locator(".node").all_text_contents() == [HEAD, TAIL]
    assert stages.locator(".layers").all_text_contents() == ["layers 0-3 of 8", "layers 4-7 of 8"]
    assert stages.locator(".carrier").all_text_contents() == ["tokens, direct", "activations, direct"]
    person.part("stop").click()
    print(f"text grew from {first} to {more} characters while the answer ran")
    assert more > first


def test_a_finished_answer_says_what_it_took_and_the_next_can_be_asked(person: Person) -> None:
    for turn in (1, 2):
        person.ask(f"question {turn}")
        person.wait_for_end()
        expect(person.part("phase")).to_have_text("Done")
        expect(person.note).to_have_text(re.compile(r"^\d+ tokens, \d+\.\d tokens/s"))
        expect(person.prompt).to_be_focused()
    assert person.page.locator(".message.user .body").all_text_contents() == ["question 1", "question 2"]


def test_stop_ends_the_answer_on_every_stage_and_bills_what_came(stack: Stack, person: Person) -> None:
    never_ending(person)
    with person.page.expect_response("**/chat/stream") as answered:
        person.ask("hello")
    person.wait_for_text(20)
    until(lambda: len(stack.busy_nodes(list(stack.nodes))) == 2, "both stages hold the session")
    person.part("stop").click()
    expect(person.note).to_have_text(re.compile("^Stopped"))
    person.wait_for_end()
    stack.until_idle(deadline_s=1.0)
    record = stack.client.record(answered.value.headers["x-request-id"])
    assert record["status"] == "cancelled"
    assert 0 < record["usage"]["completion_tokens"] < LONG_TOKENS
    stack.assert_settled()


def test_leaving_the_page_ends_the_answer_and_coming_back_finds_the_conversation(stack: Stack, person: Person) -> None:
    never_ending(person)
    person.ask("hello")
    person.wait_for_text(20)
    person.page.reload()
    stack.until_idle(deadline_s=1.0)
    expect(person.part("send")).to_be_enabled()
    expect(person.page.locator(".message.user .body")).to_have_text(["hello"])
    expect(person.part("model")).to_have_value(SERVED)
    person.page.unroute_all()
    person.ask("still there?")
    person.wait_for_end()
    expect(person.part("phase")).to_have_text("Done")


def test_what_a_person_types_stays_text(person: Person) -> None:
    person.ask(HOSTILE)
    person.wait_for_end()
    shown = person.page.locator(".message.user .body")
    expect(shown).to_have_text(HOSTILE)
    assert shown.locator("*").count() == 0
    person.page.reload()
    expect(shown).to_have_text(HOSTILE)
    assert shown.locator("*").count() == 0
    assert person.page.locator("#chat img, #chat script").count() == 0
    assert person.page.title() == "Chat - Meshnet"


def test_a_model_that_nobody_serves_is_explained_and_can_be_tried_again(person: Person) -> None:
    person.part("model").select_option(UNSERVED)
    person.ask("hello")
    person.wait_for_end()
    expect(person.part("phase")).to_have_text("Failed")
    expect(person.part("failure")).to_have_text(re.compile("^No set of machines can serve this model right now"))
    person.part("model").select_option(SERVED)
    person.page.get_by_role("button", name="Try again").click()
    expect(person.part("phase")).to_have_text("Done")
    assert person.page.locator(".message").count() == 2


def test_who_has_no_credit_is_told_so(stack: Stack, browser: Browser) -> None:
    with a_person(browser, stack.site_url) as person:
        person.sign_in(POOR, stack.passwords[POOR])
        with person.page.expect_response("**/chat/stream") as answered:
            person.ask("hello")
        assert answered.value.status == 402
        expect(person.part("failure")).to_have_text(re.compile("^You have too few credits"))
        person.wait_for_end()


def test_the_keyboard_is_enough(person: Person) -> None:
    never_ending(person)
    keyboard = person.page.keyboard
    expect(person.prompt).to_be_focused()
    keyboard.type("two")
    keyboard.press("Shift+Enter")
    keyboard.type("lines")
    keyboard.press("Enter")
    expect(person.page.locator(".message.user .body")).to_have_text("two\nlines", use_inner_text=True)
    person.wait_for_text(1)
    keyboard.press("Tab")
    expect(person.part("stop")).to_be_focused()
    keyboard.press("Enter")
    expect(person.note).to_have_text(re.compile("^Stopped"))
    expect(person.prompt).to_be_focused()
    keyboard.type("more")
    keyboard.press("Enter")
    person.wait_for_text(1)
    keyboard.press("Escape")
    expect(person.page.locator(".message .note", has_text="Stopped")).to_have_count(2)
    expect(person.prompt).to_be_focused()


def test_signing_out_ends_it_in_every_tab(person: Person) -> None:
    other = person.context.new_page()
    other.goto(f"{person.site_url}/chat/")
    other.get_by_role("button", name=f"Sign out {USER}").click()
    other.wait_for_url("**/account/login/")
    person.ask("hello")
    expect(person.part("failure")).to_have_text("You are signed out. Reload the page and sign in.")
    person.page.reload()
    person.page.wait_for_url("**/account/login/?next=/chat/")


def test_a_wrong_password_is_refused_in_words(stack: Stack, browser: Browser) -> None:
    with a_person(browser, stack.site_url) as person:
        person.page.goto(f"{stack.site_url}/chat/")
        person.page.get_by_label("Username").fill(USER)
        person.page.get_by_label("Password").fill("wrong")
        person.page.get_by_role("button", name="Sign in").click()
        expect(person.page.locator(".errorlist")).to_contain_text("correct username and password")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_shows_everything_without_scrolling_sideways(stack: Stack, browser: Browser, scheme: str) -> None:
    with a_person(browser, stack.site_url, viewport=PHONE, color_scheme=scheme) as person:
        person.sign_in(USER, stack.passwords[USER])
        person.part("model").select_option(SERVED)
        person.ask("x" * 300)
        person.wait_for_end()
        for name in ("prompt", "send", "phase", "rate", "model"):
            expect(person.part(name)).to_be_in_viewport(ratio=1)
        assert person.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
