"""An administrator's browser: what is chosen on a model's page of the admin."""

from __future__ import annotations

import html
import re

import requests

from tests.e2e.processes import DEADLINE_S
from tests.e2e.stack import Stack

ADMIN = "dora"


def an_administrator(stack: Stack) -> requests.Session:
    """Make an administrator and sign in."""
    stack.create_user(ADMIN, "--admin")
    session, login = requests.Session(), f"{stack.site_url}/admin/login/"
    session.get(login, timeout=DEADLINE_S)
    form = {"username": ADMIN, "password": stack.passwords[ADMIN], "csrfmiddlewaretoken": session.cookies["csrftoken"]}
    assert session.post(login, data=form, headers={"Referer": login}, timeout=DEADLINE_S).ok
    return session


def choose(stack: Stack, admin: requests.Session, model: str, **choices: str) -> None:
    """Save the page of the site's only model with these fields; switches that are not named are off."""
    page = f"{stack.site_url}/admin/catalog/model/1/change/"
    shown = admin.get(page, timeout=DEADLINE_S).text
    (template,) = re.findall(r'<textarea name="chat_template"[^>]*>\r?\n?(.*?)</textarea>', shown, re.DOTALL)
    form = {
        "name": model,
        "is_listed": "on",
        "prompt_micros": "3",
        "completion_micros": "7",
        "chat_template": html.unescape(template),
        "coarsest_codec": "raw",
        "csrfmiddlewaretoken": admin.cookies["csrftoken"],
    }
    answer = admin.post(page, data=form | choices, headers={"Referer": page}, timeout=DEADLINE_S)
    assert "was changed successfully" in answer.text, re.findall(r"errorlist[^<]*<li>([^<]*)", answer.text)
