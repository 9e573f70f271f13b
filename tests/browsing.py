"""A real browser, and what a person does in it with the site.

Invariants: Debian's Chromium or another of this machine, never a download of Playwright's own; headless, its profile
thrown away with it; whatever a page's scripts complain about fails the test. Playwright's loop is this thread's while a
browser is open: no test beside it may be asynchronous.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Locator, Page, expect, sync_playwright

import chromium

# Everything on these pages is on this machine.
DEADLINE_MS = 10_000
DESKTOP = {"width": 1200, "height": 800}
PHONE = {"width": 390, "height": 780}
ARGUMENTS = ("--no-first-run", "--disable-gpu", "--disable-background-networking", "--disable-component-update")
# Chromium itself logs what the page handles: a refusal's status.
_STATUS_LINE = "Failed to load resource: the server responded with a status of"


@contextmanager
def a_browser() -> Iterator[Browser]:
    """A Chromium; tests that use it carry the marker `browser`."""
    expect.set_options(timeout=DEADLINE_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium.find(), args=list(ARGUMENTS))
        yield browser
        browser.close()


@dataclass
class Person:
    """Somebody at a browser of their own, looking at one page of the site."""

    context: BrowserContext
    page: Page
    site_url: str
    complaints: list[str] = field(default_factory=list)

    def sign_in(self, name: str, password: str, path: str = "/chat/") -> None:
        """Ask for a page, be sent to the form, fill it in and be sent back."""
        self.page.goto(self.site_url + path)
        self.page.get_by_label("Username").fill(name)
        self.page.get_by_label("Password").fill(password)
        self.page.get_by_label("Password").press("Enter")
        self.page.wait_for_url(f"{self.site_url}{path}")

    @property
    def prompt(self) -> Locator:
        return self.page.get_by_label("Message", exact=True)

    @property
    def answer(self) -> Locator:
        """The last answer's text."""
        return self.page.locator(".message.assistant .body").last

    @property
    def note(self) -> Locator:
        """What stands under the last answer."""
        return self.page.locator(".message.assistant .note").last

    def part(self, name: str) -> Locator:
        """An element of the page by its id."""
        return self.page.locator(f"#{name}")

    def ask(self, text: str) -> None:
        self.prompt.fill(text)
        self.prompt.press("Enter")

    def wait_for_text(self, length: int) -> int:
        """Wait until the last answer has so many characters; how many it has."""
        handle = self.page.wait_for_function(
            """length => {
                 const found = [...document.querySelectorAll(".message.assistant .body")].at(-1)?.textContent ?? "";
                 return found.length >= length ? found.length : null;
               }""",
            arg=length,
            timeout=DEADLINE_MS,
        )
        return int(handle.json_value())

    def wait_for_end(self) -> None:
        """Wait until the composer is given back."""
        expect(self.part("send")).to_be_visible()
        expect(self.part("stop")).to_be_hidden()

    def _note_console(self, message: ConsoleMessage) -> None:
        if message.type == "error" and not message.text.startswith(_STATUS_LINE):
            self.complaints.append(message.text)


@contextmanager
def a_person(browser: Browser, site_url: str, **options: object) -> Iterator[Person]:
    """A fresh profile; at its end its pages must have complained of nothing."""
    context = browser.new_context(**{"viewport": DESKTOP, **options})  # type: ignore[arg-type]
    context.set_default_timeout(DEADLINE_MS)
    person = Person(context, context.new_page(), site_url)
    person.page.on("console", person._note_console)
    person.page.on("pageerror", lambda error: person.complaints.append(str(error)))
    person.page.on("dialog", lambda dialog: person.complaints.append(f"a dialog: {dialog.message}"))
    try:
        yield person
    finally:
        context.close()
    assert not person.complaints, person.complaints
