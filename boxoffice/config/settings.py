"""Django settings: one file, read from the environment."""

from pathlib import Path
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.utils.csp import CSP
from django.utils.translation import gettext_lazy as _

from boxoffice.config import env
from boxoffice.tenancy.postgres.base import APP_ROLE

BASE_DIR = Path(__file__).resolve().parents[2]
VERSION = "0.1.0"

DEBUG = env.boolean("DEBUG", default=False)
SECRET_KEY = env.text("SECRET_KEY")
if not SECRET_KEY:
    if not DEBUG:
        raise ImproperlyConfigured("SECRET_KEY must be set (or DEBUG=1 on your own machine).")
    SECRET_KEY = "insecure-for-debugging-only-" + "0" * 40
ALLOWED_HOSTS = env.words("ALLOWED_HOSTS", "localhost,127.0.0.1,[::1]")
CSRF_TRUSTED_ORIGINS = env.words("CSRF_TRUSTED_ORIGINS")

INSTALLED_APPS = [
    "unfold",
    "unfold.contrib.forms",
    "unfold.contrib.guardian",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.postgres",
    "django.contrib.staticfiles",
    "guardian",
    "channels",
    "django_htmx",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "boxoffice.tenancy",
    "boxoffice.audit",
    "boxoffice.acquirer",
    "boxoffice.billing",
    "boxoffice.ticketing",
    "approvals",
    "tools",
    "agents",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.middleware.csp.ContentSecurityPolicyMiddleware",
    "boxoffice.config.console.ConsolePolicyMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "boxoffice.tenancy.middleware.TenantPathMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "boxoffice.tenancy.middleware.PrincipalMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
]

ROOT_URLCONF = "boxoffice.config.urls"
TENANT_URLCONF = "boxoffice.config.tenant_urls"
ASGI_APPLICATION = "boxoffice.config.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.template.context_processors.csp",
                "django.template.context_processors.i18n",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "boxoffice.tenancy.context.tenant",
            ],
        },
    }
]

DATABASES = {
    "default": env.database(
        "DATABASE_URL",
        engine="boxoffice.tenancy.postgres",
        role=APP_ROLE,
        pool_size=env.integer("DATABASE_POOL_SIZE", 8),
    )
}
REDIS_URL = env.text("REDIS_URL", "redis://127.0.0.1:6379/0")
CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
        "CONFIG": {"hosts": [{"address": REDIS_URL, "socket_timeout": None}]},
    }
}

AUTH_USER_MODEL = "tenancy.User"
AUTHENTICATION_BACKENDS = [
    "django.contrib.auth.backends.ModelBackend",
    "guardian.backends.ObjectPermissionBackend",
]
ANONYMOUS_USER_NAME = None
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = "/accounts/login/"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "/"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = env.boolean("SECURE_COOKIES", default=not DEBUG)
SECURE_SSL_REDIRECT = env.boolean("SECURE_SSL_REDIRECT", default=not DEBUG)
SECURE_REDIRECT_EXEMPT = [r"^(livez|readyz|metrics)$"]
SECURE_HSTS_SECONDS = 0 if DEBUG else 31_536_000
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = not DEBUG
SECURE_PROXY_SSL_HEADER = (
    ("HTTP_X_FORWARDED_PROTO", "https") if env.boolean("BEHIND_PROXY", default=False) else None
)
SECURE_CSP = {
    "default-src": [CSP.SELF],
    "script-src": [CSP.SELF, CSP.NONCE],
    "style-src": [CSP.SELF],
    "img-src": [CSP.SELF, "data:"],
    "connect-src": [CSP.SELF],
    "object-src": [CSP.NONE],
    "base-uri": [CSP.NONE],
    "form-action": [CSP.SELF],
    "frame-ancestors": [CSP.NONE],
}

LANGUAGE_CODE = "pt-br"
LANGUAGES = [("pt-br", _("Portuguese (Brazil)")), ("en", _("English"))]
LOCALE_PATHS = [BASE_DIR / "locale"]
TIME_ZONE = "America/Sao_Paulo"
USE_TZ = True

STATIC_URL = "/static/"
STATIC_ROOT = BASE_DIR / "staticfiles"
STATICFILES_DIRS = [BASE_DIR / "static"]
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = DEBUG

DATA_UPLOAD_MAX_MEMORY_SIZE = 1_000_000
MAILERS: dict[str, dict[str, Any]] = {
    "default": {"BACKEND": "django.core.mail.backends.console.EmailBackend"}
    if DEBUG
    else {
        "BACKEND": "django.core.mail.backends.smtp.EmailBackend",
        "OPTIONS": {
            "host": env.text("EMAIL_HOST", "localhost"),
            "port": env.integer("EMAIL_PORT", 25),
            "username": env.text("EMAIL_HOST_USER"),
            "password": env.text("EMAIL_HOST_PASSWORD"),
            "use_tls": env.boolean("EMAIL_USE_TLS", default=False),
            "timeout": 30,
        },
    }
}
DEFAULT_FROM_EMAIL = env.text("DEFAULT_FROM_EMAIL", "bilheteria@example.com")
# Where the site is reached from outside: the links in mails begin with it.
PUBLIC_URL = env.text("PUBLIC_URL", f"http://localhost:{env.integer('PORT', 8000)}")

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["boxoffice.tenancy.rest.PrincipalAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": ["boxoffice.tenancy.rest.IsPrincipal"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["boxoffice.tenancy.rest.StrictJSONParser"],
    "DEFAULT_PAGINATION_CLASS": "boxoffice.tenancy.rest.NewestFirst",
    "DEFAULT_SCHEMA_CLASS": "boxoffice.tenancy.openapi.ProblemSchema",
    "EXCEPTION_HANDLER": "boxoffice.tenancy.problems.exception_handler",
    "PAGE_SIZE": 50,
    "URL_FORMAT_OVERRIDE": None,
}
SPECTACULAR_SETTINGS = {
    "TITLE": "BoxOffice Agents",
    "DESCRIPTION": "What a fan, a reviewer and a tenant admin can do, per tenant.",
    "VERSION": VERSION,
    "SERVE_URLCONF": TENANT_URLCONF,
    "SERVERS": [
        {"url": "/t/{tenant}", "variables": {"tenant": {"default": "arena"}}},
    ],
    "SERVE_INCLUDE_SCHEMA": False,
    "SERVE_PERMISSIONS": ["rest_framework.permissions.AllowAny"],
    "SERVE_AUTHENTICATION": [],
    "SCHEMA_PATH_PREFIX": r"/api/v[0-9]+",
    "COMPONENT_SPLIT_REQUEST": True,
}

UNFOLD = {
    "SITE_TITLE": "BoxOffice Agents",
    "SITE_HEADER": "BoxOffice Agents",
    "SITE_SYMBOL": "confirmation_number",
    "SITE_FAVICONS": [
        {"rel": "icon", "type": "image/svg+xml", "href": "/static/site/icon.svg"},
    ],
    "SITE_URL": "/",
    "SHOW_LANGUAGES": True,
    "SHOW_VIEW_ON_SITE": False,
    "SIDEBAR": {"show_search": True, "show_all_applications": False},
}

# Work. Messages are wake-ups and Postgres decides, so nothing is stored in the broker for long:
# the visibility timeout only has to stay far above the longest run.
CELERY_BROKER_URL = env.text("CELERY_BROKER_URL", REDIS_URL)
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = False
CELERY_TASK_PUBLISH_RETRY = False
# A wake-up goes to a worker with a free slot. (With RabbitMQ this is not known, and one that waits
# behind a full worker is replaced by the sweep.)
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_DISABLE_PREFETCH = CELERY_BROKER_URL.startswith(("redis", "valkey"))
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "visibility_timeout": 6 * 3600,
    "socket_connect_timeout": 2,
    # Who sends a task to a broker that is away is told at once, and does not wait for seconds.
    "max_retries": 0,
}
CELERY_TASK_DEFAULT_QUEUE = "boxoffice"
CELERY_TIMEZONE = "UTC"
SWEEP_SECONDS = env.integer("SWEEP_SECONDS", 1)
CELERY_BEAT_SCHEDULE = {
    "agents.sweep": {
        "task": "agents.sweep",
        "schedule": float(SWEEP_SECONDS),
        "options": {"expires": 5},
    },
    "agents.replays_sweep": {
        "task": "agents.replays_sweep",
        "schedule": 10.0,
        "options": {"expires": 10},
    },
    "ticketing.expire_holds": {
        "task": "ticketing.expire_holds",
        "schedule": 5.0,
        "options": {"expires": 10},
    },
    "ticketing.deliver_emails": {
        "task": "ticketing.deliver_emails",
        "schedule": 15.0,
        "options": {"expires": 15},
    },
    "tools.resolve_effects": {
        "task": "tools.resolve_effects",
        "schedule": 5.0,
        "options": {"expires": 10},
    },
    "approvals.expire": {
        "task": "approvals.expire",
        "schedule": 5.0,
        "options": {"expires": 10},
    },
    "tools.undo_due": {"task": "tools.undo_due", "schedule": 1.0, "options": {"expires": 5}},
    "audit.seal": {"task": "audit.seal", "schedule": 5.0, "options": {"expires": 10}},
}

# The agent.
ANTHROPIC_API_KEY = env.text("ANTHROPIC_API_KEY")
ANTHROPIC_BASE_URL = env.text("ANTHROPIC_BASE_URL", "https://api.anthropic.com")
MODEL_TIMEOUT_SECONDS = env.integer("MODEL_TIMEOUT_SECONDS", 60)
DEMO_TOKEN_DELAY_MS = env.integer("DEMO_TOKEN_DELAY_MS", 12)
DATABASE_THREADS = env.integer("DATABASE_THREADS", 8)
LEASE_SECONDS = env.integer("LEASE_SECONDS", 6)
HEARTBEAT_SECONDS = 1.0
# A worker that is told to end has so long to give its runs back.
SHUTDOWN_GRACE_SECONDS = env.integer("SHUTDOWN_GRACE_SECONDS", 20)
# So many answers to one person are worked on at once; further ones wait in line.
RUNS_PER_PERSON = env.integer("RUNS_PER_PERSON", 10)
# A fan whose answer has not begun by then is told that it is in line.
IN_LINE_SECONDS = env.integer("IN_LINE_SECONDS", 3)
STREAM_FLUSH_SECONDS = 0.02
STREAM_MAX_ENTRIES = 10_000
STREAM_EXPIRE_SECONDS = 3600
# What holds while Valkey, which counts, is away: open lets everybody in, closed nobody. Messages
# and circuits, and tools that have a rate of their own by their risk.
WITHOUT_VALKEY = env.choices(
    "WITHOUT_VALKEY",
    {
        "messages": "open",
        "read": "open",
        "write_reversible": "open",
        "destructive": "closed",
        "circuit": "open",
    },
    allowed=("open", "closed"),
)
VALKEY_PATIENCE_SECONDS = env.integer("VALKEY_PATIENCE_MS", 500) / 1000
# Messages per minute of all members of a tenant together, and of all its visitors.
TENANT_RATE_PER_MIN = env.integer("TENANT_RATE_PER_MIN", 6000)
VISITORS_RATE_PER_MIN = env.integer("VISITORS_RATE_PER_MIN", 1200)
# So many failures of a tool within the window, and it is left alone for a while.
CIRCUIT_FAILURES = env.integer("CIRCUIT_FAILURES", 5)
CIRCUIT_WINDOW_SECONDS = env.integer("CIRCUIT_WINDOW_SECONDS", 60)
CIRCUIT_OPEN_SECONDS = env.integer("CIRCUIT_OPEN_SECONDS", 30)
HOLD_SECONDS = env.integer("HOLD_SECONDS", 600)
FAN_CONFIRM_SECONDS = env.integer("FAN_CONFIRM_SECONDS", 900)
# Without an address, the demo's provider is started for each request; its money is not real.
PAYMENT_URL = env.text("PAYMENT_URL")
PAYMENT_API_KEY = env.text("PAYMENT_API_KEY")
PAYMENT_PROVIDER = env.text(
    "PAYMENT_PROVIDER", "boxoffice.ticketing.services.payments.HttpProvider"
)
APPROVAL_SECONDS = env.integer("APPROVAL_SECONDS", 24 * 3600)

LOG_LEVEL = env.text("LOG_LEVEL", "INFO")
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"plain": {"format": "%(asctime)s %(levelname)s %(name)s %(message)s"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "plain"}},
    "root": {"handlers": ["console"], "level": LOG_LEVEL},
    # One line for each request of the SDK says nothing that the steps do not.
    "loggers": {"httpx2": {"level": "WARNING"}},
}
