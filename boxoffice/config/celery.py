"""The Celery application: `celery -A boxoffice.config.celery worker -P threads`."""

import os
from typing import Any

from celery import Celery
from celery.app.amqp import AMQP
from kombu.connection import Connection

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "boxoffice.config.settings")

RECONNECT_SECONDS = 1


class SteadyConnection(Connection):
    """A connection that looks for a broker that is away every second, however long it is away.

    Celery's own waits two seconds more after each try, up to thirty, and has no setting for it:
    what was queued meanwhile would lie for half a minute after the broker's return.
    """

    def _ensure_connection(self, *args: Any, **kwargs: Any) -> Any:
        kwargs["interval_max"] = RECONNECT_SECONDS
        return super()._ensure_connection(*args, **kwargs)  # type: ignore[no-untyped-call]


class SteadyAMQP(AMQP):  # type: ignore[misc]
    """Celery's messaging, over steady connections."""

    Connection = SteadyConnection


app = Celery("boxoffice", amqp=SteadyAMQP)
# Tasks are sent from web and worker threads too; Celery's "current app" is per thread otherwise.
app.set_default()
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
