"""Django settings; every variable of the environment is read through `environment`.

Invariants: if no variable is set, the site is strict and self-contained (DEBUG off, SQLite, in-memory channel layer,
loopback hosts only). Every file that it writes lies under `DATA_DIRECTORY`. No log record holds a prompt, a completion
or a key.

Variables: MESHNET_SITE_DATA (folder), MESHNET_DEBUG, MESHNET_ALLOWED_HOSTS and MESHNET_TRUSTED_ORIGINS (comma
separated), MESHNET_HTTPS (the site is reached through a TLS proxy that sets X-Forwarded-Proto), MESHNET_DATABASE_URL,
MESHNET_REDIS_URL, MESHNET_RELAY_URL, MESHNET_RELAY_ID, MESHNET_EXACT_ROUTES, MESHNET_OPEN_REGISTRATION,
MESHNET_METRICS_TOKEN, MESHNET_LOG_LEVEL.
"""

from __future__ import annotations

import secrets
from pathlib import Path

from tracker_site.config import environment
from tracker_site.secret_files import read_or_create

SITE_ROOT = Path(__file__).resolve().parent.parent
DATA_DIRECTORY = environment.data_directory()

DEBUG = environment.flag("MESHNET_DEBUG")
ALLOWED_HOSTS = environment.comma_separated("MESHNET_ALLOWED_HOSTS", "localhost,127.0.0.1,[::1]")
CSRF_TRUSTED_ORIGINS = environment.comma_separated("MESHNET_TRUSTED_ORIGINS")
SECRET_KEY = read_or_create(
    DATA_DIRECTORY / environment.SECRET_KEY_FILE, lambda: secrets.token_urlsafe(64).encode()
).decode()

# The Ed25519 key that signs tickets; tracker_site.nodes.site_key reads it.
SITE_KEY_PATH = DATA_DIRECTORY / environment.SITE_KEY_FILE
VOCABULARY_DIRECTORY = DATA_DIRECTORY / "vocabularies"
GOLDEN_DIRECTORY = DATA_DIRECTORY / "goldens"

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "channels",
    "tracker_site.accounts",
    "tracker_site.catalog",
    "tracker_site.nodes",
    "tracker_site.billing",
    "tracker_site.control_plane",
    "tracker_site.gateway",
    "tracker_site.openai_api",
    "tracker_site.chat",
    "tracker_site.ops",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "tracker_site.config.static_files.StaticFilesMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

ROOT_URLCONF = "tracker_site.config.urls"
ASGI_APPLICATION = "tracker_site.config.asgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [SITE_ROOT / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

_database_url = environment.text(environment.DATABASE_URL)
DATABASES = {
    "default": environment.postgresql_database(environment.DATABASE_URL, _database_url)
    if _database_url
    else environment.sqlite_database(DATA_DIRECTORY / environment.DATABASE_FILE),
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

_redis_url = environment.text("MESHNET_REDIS_URL")
CHANNEL_LAYERS: dict[str, dict[str, object]]
CACHES: dict[str, dict[str, object]]
if _redis_url:
    CHANNEL_LAYERS = {"default": environment.redis_channel_layer(_redis_url)}
    CACHES = {"default": {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": _redis_url}}
else:
    CHANNEL_LAYERS = {
        "default": {"BACKEND": "channels.layers.InMemoryChannelLayer", "CONFIG": {"capacity": 1000}},
    }
    CACHES = {
        "default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache", "OPTIONS": {"MAX_ENTRIES": 20_000}}
    }
# Without Redis, no other process can hold a control connection or a route of this site.
IS_SINGLE_PROCESS = not _redis_url

AUTH_USER_MODEL = "accounts.User"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
]
LOGIN_URL = "accounts:login"
LOGIN_REDIRECT_URL = "accounts:overview"
LOGOUT_REDIRECT_URL = "accounts:login"
OPEN_REGISTRATION = environment.flag("MESHNET_OPEN_REGISTRATION")

USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en-us"
USE_I18N = False
FORMAT_MODULE_PATH = ["tracker_site.config.formats"]

STATIC_URL = "/static/"
STATICFILES_DIRS = [SITE_ROOT / "static"]
# Serve files directly from the apps' folders, so that no `collectstatic` step can be forgotten.
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = DEBUG

# Largest body of a form, in bytes; `gateway.request_body` reads bodies of generations with its own, larger limit.
DATA_UPLOAD_MAX_MEMORY_SIZE = 2 * 1024 * 1024
DATA_UPLOAD_MAX_NUMBER_FIELDS = 1000

SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
CSRF_COOKIE_SAMESITE = "Lax"
BEHIND_HTTPS = environment.flag("MESHNET_HTTPS")
if BEHIND_HTTPS:
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    SECURE_SSL_REDIRECT = True
    SECURE_HSTS_SECONDS = 31_536_000  # one year
    SESSION_COOKIE_SECURE = True
    CSRF_COOKIE_SECURE = True

# The data plane. If no URL is given, `meshnet site serve` starts a relay and sets its URL.
RELAY_URL = environment.text(environment.RELAY_URL, "ws://127.0.0.1:8701")
RELAY_ID = environment.text("MESHNET_RELAY_ID", "relay-1")
# If true, every route computes bit for bit the same as the unsplit model, with prompt chunks of one size; if false,
# prompts are cut for speed.
EXACT_ROUTES = environment.flag("MESHNET_EXACT_ROUTES")

# Control connections. A node reports at every heartbeat, and its lease survives two lost reports. Source: docs/wire.md,
# Time.
CONTROL_HEARTBEAT_MS = 5_000
CONTROL_LEASE_MS = 15_000
CONTROL_HELLO_TIMEOUT_S = 5.0
ENROLMENTS_PER_MINUTE = 30  # of one address
GOLDENS_PER_MINUTE = 30  # of one address; an answer has a few MB
NODES_PER_USER = 64

METRICS_TOKEN = environment.text("MESHNET_METRICS_TOKEN")

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "{asctime} {levelname} {name}: {message}", "style": "{"}},
    "handlers": {
        "stderr": {"class": "logging.StreamHandler", "formatter": "line"},
        "nowhere": {"class": "logging.NullHandler"},
    },
    "root": {"handlers": ["stderr"], "level": environment.text("MESHNET_LOG_LEVEL", "INFO").upper()},
    "loggers": {
        "daphne": {"level": "WARNING"},
        # Anybody can send a wrong Host. Each refusal is already logged as one line, so its traceback is dropped.
        "django.security.DisallowedHost": {"handlers": ["nowhere"], "propagate": False},
        # At DEBUG these two loggers would log SQL and template variables, which hold data of requests.
        "django.db.backends": {"level": "INFO"},
        "django.template": {"level": "INFO"},
    },
}
