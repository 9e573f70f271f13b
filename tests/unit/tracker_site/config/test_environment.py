"""What the site makes of its environment variables."""

from __future__ import annotations

import pytest
from django.core.exceptions import ImproperlyConfigured

from tracker_site.config import environment

# Source: channels_redis.core.RedisChannelLayer.brpop_timeout.
CHANNELS_REDIS_RECEIVE_S = 5


def test_a_postgresql_url_becomes_a_database() -> None:
    database = environment.postgresql_database("URL", "postgresql://user:p%40ss@db.example:5433/mesh%20net")
    named = {name: database[name] for name in ("NAME", "USER", "PASSWORD", "HOST", "PORT")}
    assert named == {"NAME": "mesh net", "USER": "user", "PASSWORD": "p@ss", "HOST": "db.example", "PORT": 5433}


@pytest.mark.parametrize("url", ["mysql://u@h/d", "postgresql://host", "postgresql://host:port/d", "postgresql:///"])
def test_a_wrong_database_url_stops_the_start_and_shows_no_password(url: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=r"^URL ") as refusal:
        environment.postgresql_database("URL", url)
    assert url not in str(refusal.value)


@pytest.mark.parametrize(
    ("word", "expected"), [("1", True), (" On ", True), ("0", False), ("", False), ("FALSE", False), (None, False)]
)
def test_flags_are_words_for_yes_and_no(word: str | None, expected: bool) -> None:
    assert environment.flag("FLAG", environment={} if word is None else {"FLAG": word}) is expected


def test_another_word_is_no_flag() -> None:
    with pytest.raises(ImproperlyConfigured, match="FLAG"):
        environment.flag("FLAG", environment={"FLAG": "maybe"})


def test_redis_may_be_silent_for_longer_than_a_receive_waits() -> None:
    layer = environment.redis_channel_layer("redis://127.0.0.1:6379/0")
    assert layer["CONFIG"]["hosts"][0]["socket_timeout"] > CHANNELS_REDIS_RECEIVE_S  # type: ignore[index]


def test_a_relay_that_was_decided_is_what_the_settings_read() -> None:
    variables: dict[str, str] = {}
    environment.set_relay_url("ws://127.0.0.1:8701", variables)
    assert environment.text(environment.RELAY_URL, environment=variables) == "ws://127.0.0.1:8701"
