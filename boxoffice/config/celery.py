"""The Celery application: `celery -A boxoffice.config.celery worker -P threads`."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "boxoffice.config.settings")

app = Celery("boxoffice")
# Tasks are sent from web and worker threads too; Celery's "current app" is per thread otherwise.
app.set_default()
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
