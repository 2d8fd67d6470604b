"""One settings file. Everything that may differ between places comes from the environment; the defaults try out.

Budgets and caps carry their unit in their name. Where a number comes from is said beside it.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import environ
from csp.constants import NONCE, NONE, SELF
from django.core.exceptions import ImproperlyConfigured

from receipts_project import embedded_postgres, environment
from receipts_project.generated_secrets import make_fernet_key, make_secret, read_or_create
from receipts_project.postgresql.session import session_options

BASE_DIR = Path(__file__).resolve().parent.parent
env = environ.Env()

VERSION: str = tomllib.loads((BASE_DIR / "pyproject.toml").read_text())["project"]["version"]
DATA_DIR = Path(environment.text("DATA_DIR", str(BASE_DIR / "var"))).absolute()
DEBUG = environment.flag("DEBUG", False)


def _secret(name: str, make: Callable[[], str] = make_secret) -> str:
    """A secret from the environment, else generated once and kept in DATA_DIR."""
    try:
        return environment.text(name) or read_or_create(DATA_DIR, name.lower(), make)
    except OSError as error:
        raise ImproperlyConfigured(
            f"DATA_DIR {DATA_DIR} cannot hold the secret {name} ({error.strerror}): make it writable, or set {name}."
        ) from None


SECRET_KEY = _secret("SECRET_KEY")
#: Keys the request fingerprint (HMAC-SHA-256): a leaked ledger must not let anyone guess short notes by hashing.
FINGERPRINT_KEY = _secret("FINGERPRINT_KEY")
#: Fernet keys of sealed inputs, newest first, comma-separated. Apart from SECRET_KEY, so each rotates alone.
SEALED_INPUT_KEYS = [key for key in _secret("SEALED_INPUT_KEYS", make_fernet_key).split(",") if key]
SEALED_INPUT_DAYS = environment.integer("SEALED_INPUT_DAYS", 30, maximum=36_500)

ALLOWED_HOSTS = env.list("ALLOWED_HOSTS", default=["localhost", "127.0.0.1", "[::1]"])
CSRF_TRUSTED_ORIGINS = env.list("CSRF_TRUSTED_ORIGINS", default=[])
BEHIND_TLS = environment.flag("BEHIND_TLS", False)
if BEHIND_TLS:
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    SECURE_HSTS_SECONDS = 31_536_000
    SECURE_SSL_REDIRECT = True
    SECURE_REDIRECT_EXEMPT = [r"^livez$", r"^readyz$"]  # probes come by plain HTTP, behind the proxy
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = BEHIND_TLS
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"

INSTALLED_APPS = [
    "receipts_project.apps.ReceiptsProjectConfig",
    "receipts_project.accounts.apps.AccountsConfig",
    "receipts.apps.ReceiptsConfig",
    "tickets.apps.TicketsConfig",
    "receipts_project.apps.ConsoleConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.humanize",
    "rest_framework",
    "django_filters",
    "procrastinate.contrib.django",
    "knox",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "axes",
    "csp",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "axes.middleware.AxesMiddleware",
]

ROOT_URLCONF = "receipts_project.urls"
WSGI_APPLICATION = "receipts_project.wsgi.application"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "receipts_project.context.about",
            ],
        },
    },
]

# ── database ─────────────────────────────────────────────────────────────────────────────────────────────────────

DATABASE_URL = embedded_postgres.database_url(env.ENVIRON, DATA_DIR)
#: Connections of one process. The hot path holds one only while a statement runs, so a few carry hundreds of presses.
DATABASE_POOL_SIZE = environment.integer("DATABASE_POOL_SIZE", 12)
DATABASES = {"default": env.db_url_config(DATABASE_URL)}
DATABASES["default"]["ENGINE"] = "receipts_project.postgresql"
DATABASES["default"].update(
    CONN_MAX_AGE=0,  # the pool keeps connections; Django refuses both at once
    CONN_HEALTH_CHECKS=True,
    ATOMIC_REQUESTS=False,  # commit 1 must be visible before the provider is called
    DISABLE_SERVER_SIDE_CURSORS=False,
)
DATABASES["default"].setdefault("OPTIONS", {})
DATABASES["default"]["OPTIONS"] |= {
    "application_name": "receipts",
    # Django forbids preparing unless asked; only the hot statements use it (receipts/statements.py)
    "prepare_threshold": 5,
    # waiting for a pooled connection: 2 s at most (the library waits 30), and no more after an outage (it backs off
    # for up to 5 minutes)
    "pool": {"min_size": 1, "max_size": DATABASE_POOL_SIZE, "timeout": 2.0, "reconnect_timeout": 2.0},
}

# ── people ───────────────────────────────────────────────────────────────────────────────────────────────────────

AUTH_USER_MODEL = "accounts.User"
AUTHENTICATION_BACKENDS = [
    "axes.backends.AxesStandaloneBackend",
    "receipts_project.accounts.backends.RoleBackend",
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
]
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "board"
LOGOUT_REDIRECT_URL = "login"
AXES_FAILURE_LIMIT = 8
AXES_COOLOFF_TIME = timedelta(minutes=10)
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]  # the name alone would let anyone lock the auditor out
AXES_LOCKOUT_TEMPLATE = "locked_out.html"  # the console's sign-in; the leads' renders it itself
AXES_RESET_ON_SUCCESS = True
AXES_ENABLE_ADMIN = False
AXES_VERBOSE = False
# axes keeps what a failed sign-in posted: never a page's kept notes, nor where it was going
AXES_SENSITIVE_PARAMETERS = ["username", "ip_address", "notes", "kept_notes", "next"]
REST_KNOX = {"TOKEN_TTL": timedelta(days=90), "AUTO_REFRESH": False}

# ── the flow's budgets (seconds unless the name says otherwise) ──────────────────────────────────────────────────

FILL_BUDGET_SECONDS = environment.seconds("FILL_BUDGET_SECONDS", 20.0)
ATTEMPT_DEADLINE_SECONDS = environment.seconds("ATTEMPT_DEADLINE_SECONDS", 30.0)
START_BY_SECONDS = environment.seconds("START_BY_SECONDS", 3600.0)
APPLY_LOCK_TIMEOUT_MS = environment.integer("APPLY_LOCK_TIMEOUT_MS", 2000)
DATABASES["default"]["OPTIONS"]["options"] = session_options(
    DATABASES["default"]["OPTIONS"].get("options", ""), lock_timeout_ms=APPLY_LOCK_TIMEOUT_MS, arguments=sys.argv
)
APPLY_STATEMENT_TIMEOUT_MS = environment.integer("APPLY_STATEMENT_TIMEOUT_MS", 5000)
#: The version of a tool that new presses open, where it is not the newest. Receipts keep theirs.
CONTRACTS = environment.contracts("CONTRACTS", "file_followup@1")
#: What nobody watches is continued by the system: so many attempts, so far apart, within so long. Ten outlast a
#: provider that is away for a quarter of an hour and a mail server that greylists; it is longer than a queued receipt
#: waits to begin.
RETRY_ATTEMPTS = environment.integer("RETRY_ATTEMPTS", 10)
RETRY_FIRST_SECONDS = environment.seconds("RETRY_FIRST_SECONDS", 5.0)
RETRY_MAX_SECONDS = environment.seconds("RETRY_MAX_SECONDS", 300.0)
RETRY_WITHIN_SECONDS = environment.seconds("RETRY_WITHIN_SECONDS", 7200.0)
#: So many failures of the provider in a row hold back what nobody watches, for so long; each failed probe doubles it.
CIRCUIT_FAILURES = environment.integer("CIRCUIT_FAILURES", 5)
CIRCUIT_SECONDS = environment.seconds("CIRCUIT_SECONDS", 15.0)
CIRCUIT_MAX_SECONDS = environment.seconds("CIRCUIT_MAX_SECONDS", 300.0)
#: Where the wall clock hangs that scheduled workflows go by, unless one names its own zone.
SCHEDULE_TIME_ZONE = environment.time_zone("SCHEDULE_TIME_ZONE", "UTC")
#: Days without a reply after which `nightly_stale_tickets` has a follow-up drafted.
STALE_AFTER_DAYS = environment.integer("STALE_AFTER_DAYS", 3, maximum=3650)
#: Days for which the queue keeps jobs that failed for good; those that succeed it deletes at once.
QUEUE_KEEP_DAYS = environment.integer("QUEUE_KEEP_DAYS", 7, maximum=3650)
#: Receipts of one bulk replay, and its replays that are under way at once.
BULK_REPLAY_MAX = environment.integer("BULK_REPLAY_MAX", 1000, maximum=10_000)
BULK_REPLAY_IN_FLIGHT = environment.integer("BULK_REPLAY_IN_FLIGHT", 8)
#: Attempts in flight in one process; the next press is told 503 `overloaded` before any receipt.
MAX_IN_FLIGHT = environment.integer("MAX_IN_FLIGHT", 512)
#: Event streams open in one process beside those.
MAX_STREAMS = environment.integer("MAX_STREAMS", 64)
#: Threads that settle attempts. Each holds a connection only for commit 2.
SETTLE_THREADS = environment.integer("SETTLE_THREADS", 8)
#: Changes outside the database (mail) that one process makes at once.
HANDOVER_THREADS = environment.integer("HANDOVER_THREADS", 8)
NARRATION_PING_SECONDS = environment.seconds("NARRATION_PING_SECONDS", 10.0)
#: Presses that start a fill, per user: "60/min", "5/s", "1000/hour", or "none".
THROTTLE_PRESSES = environment.text("THROTTLE_PRESSES", "60/min")

# ── the model provider ───────────────────────────────────────────────────────────────────────────────────────────

COMPLETIONS_URL = environment.text("COMPLETIONS_URL")
COMPLETIONS_API_KEY = environment.text("COMPLETIONS_API_KEY")
COMPLETIONS_AUTH = environment.text("COMPLETIONS_AUTH", "auto")
COMPLETIONS_MODEL = environment.text("COMPLETIONS_MODEL", "gpt-4o-mini")
COMPLETIONS_MODE = environment.text("COMPLETIONS_MODE", "auto")
COMPLETIONS_STREAM = environment.flag("COMPLETIONS_STREAM", True)
COMPLETIONS_EXTRA = environment.json_object("COMPLETIONS_EXTRA")
#: Set by the launcher when COMPLETIONS_URL is its own stand-in: every page then says so.
STANDIN_PROVIDER = environment.flag("STANDIN_PROVIDER", False)

# ── mail to requesters ───────────────────────────────────────────────────────────────────────────────────────────

#: Where the outbox is handed over: `smtp+tls://user:password@mail.example:587`. Without it nothing leaves: files in
#: DATA_DIR/mail.
EMAIL_URL = environment.text("EMAIL_URL")
vars().update(environment.mail("EMAIL_URL", str(DATA_DIR / "mail")))
#: Of each step with the mail server, not of all: a delivery that outlives its attempt's deadline is `outcome_unknown`.
EMAIL_TIMEOUT = environment.seconds("EMAIL_TIMEOUT", 10.0)
DEFAULT_FROM_EMAIL = environment.text("DEFAULT_FROM_EMAIL", "Support <support@localhost>")
if EMAIL_URL and not environment.text("DEFAULT_FROM_EMAIL"):
    raise ImproperlyConfigured("DEFAULT_FROM_EMAIL must name the sender of mails, because EMAIL_URL is set.")

# ── the wire ─────────────────────────────────────────────────────────────────────────────────────────────────────

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "receipts_project.accounts.tokens.TokenAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["receipts.parsers.StrictJSONParser"],
    "DEFAULT_FILTER_BACKENDS": ["django_filters.rest_framework.DjangoFilterBackend"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "receipts.problems.exception_handler",
    "URL_FORMAT_OVERRIDE": None,  # the Accept header says it, and nothing else
    "TEST_REQUEST_DEFAULT_FORMAT": "json",
}
DATA_UPLOAD_MAX_MEMORY_SIZE = 1_048_576

SPECTACULAR_SETTINGS = {
    "TITLE": "Receipts",
    "DESCRIPTION": "Model-assisted mutations behind receipt rows.",
    "VERSION": "1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SERVE_PERMISSIONS": ["rest_framework.permissions.AllowAny"],
    "SERVE_AUTHENTICATION": [],
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "COMPONENT_SPLIT_REQUEST": True,
    "ENUM_NAME_OVERRIDES": {  # several things have a status; each gets its own name in the schema
        "ReceiptStatus": "receipts.serializers.STATUSES",
        "Outcome": "receipts.serializers.OUTCOMES",
        "TicketStatus": "tickets.models.Ticket.Status",
    },
}

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF, NONCE],
        "style-src": [SELF, NONCE],
        "img-src": [SELF, "data:"],
        "font-src": [SELF],
        "connect-src": [SELF],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
        "base-uri": [NONE],
    }
}

# ── text, time, files ────────────────────────────────────────────────────────────────────────────────────────────

LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English")]
USE_I18N = True
USE_TZ = True
TIME_ZONE = environment.time_zone("TIME_ZONE", "UTC")

STATIC_URL = "/static/"
STATIC_ROOT = DATA_DIR / "static"
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"},
}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"()": "receipts.logs.LineFormatter"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {
        "handlers": ["stderr"],
        "level": environment.choice("LOG_LEVEL", "INFO", ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")),
    },
    "loggers": {
        "django": {"level": "WARNING"},
        "django.request": {"level": "ERROR"},
        "axes": {"level": "WARNING"},
        "procrastinate": {"level": "WARNING"},
        "httpx": {"level": "WARNING"},  # logs full URLs at INFO
    },
}
