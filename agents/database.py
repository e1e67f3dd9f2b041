"""ORM work of the worker's event loop: a few threads, each unit on a pooled connection.

Django's own async ORM runs on one thread and would serialise all runs of a process.
"""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial

from django.conf import settings
from django.db import connection

_executor = ThreadPoolExecutor(
    max_workers=settings.DATABASE_THREADS, thread_name_prefix="agents-db"
)


async def in_db[**P, R](unit: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run a unit of ORM work in a thread, under the caller's scope; its connection goes back.

    A cancelled caller waits for the unit to end: what was begun is committed or rolled back
    before the run is given away.
    """
    loop = asyncio.get_running_loop()
    context = copy_context()
    return await uncut(
        loop.run_in_executor(
            _executor, context.run, _with_connection, partial(unit, *args, **kwargs)
        )
    )


async def uncut[R](work: Awaitable[R]) -> R:
    """Await work to its end; who is cancelled meanwhile, however often, hears of it only then."""
    future = asyncio.ensure_future(work)
    is_cancelled = False
    while not future.done():
        try:
            await asyncio.wait([future])
        except asyncio.CancelledError:
            is_cancelled = True
    if is_cancelled:
        if not future.cancelled():
            future.exception()  # the caller has something else to do: nobody else looks at it
        raise asyncio.CancelledError
    return future.result()


def _with_connection[R](unit: Callable[[], R]) -> R:
    try:
        return unit()
    finally:
        connection.close()
