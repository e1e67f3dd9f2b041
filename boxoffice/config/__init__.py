"""Wiring: settings, URLs, servers. Nobody imports it."""

from boxoffice.config.celery import app as celery_app

__all__ = ["celery_app"]
