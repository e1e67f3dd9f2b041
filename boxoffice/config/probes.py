"""Health, readiness and metrics."""

import logging

import redis
from django.conf import settings
from django.db import Error, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, HttpResponse, JsonResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

logger = logging.getLogger(__name__)


def livez(request: HttpRequest) -> HttpResponse:
    """The process answers."""
    return HttpResponse("ok", content_type="text/plain")


def readyz(request: HttpRequest) -> JsonResponse:
    """The database is reachable and migrated, and so is Valkey: 200, else 503."""
    checks = {"database": _database_ready(), "valkey": _valkey_ready()}
    return JsonResponse(checks, status=200 if all(checks.values()) else 503)


def _database_ready() -> bool:
    try:
        executor = MigrationExecutor(connection)
        return not executor.migration_plan(executor.loader.graph.leaf_nodes())
    except Error as error:
        logger.warning("readiness: database: %s", type(error).__name__)
        return False


def _valkey_ready() -> bool:
    client = redis.Redis.from_url(settings.REDIS_URL, socket_timeout=2, socket_connect_timeout=2)
    try:
        return bool(client.ping())
    except redis.RedisError as error:
        logger.warning("readiness: valkey: %s", type(error).__name__)
        return False
    finally:
        client.close()


def metrics(request: HttpRequest) -> HttpResponse:
    """Prometheus metrics of this process."""
    return HttpResponse(generate_latest(), content_type=CONTENT_TYPE_LATEST)
