"""The Celery application: `celery -A boxoffice.config.celery worker -P threads`."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "boxoffice.config.settings")

app = Celery("boxoffice")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
