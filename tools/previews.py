"""What a call would change, as its tool says without changing it."""

import logging

from django.db import DatabaseError, transaction

from boxoffice.common.exceptions import BoxOfficeError
from boxoffice.common.types import JsonObject
from tools.spec import ToolContext, ToolInput, ToolSpec

logger = logging.getLogger(__name__)


class PreviewFailed(BoxOfficeError):
    """A tool cannot say what a call would change."""

    code = "preview_failed"


def preview_of(spec: ToolSpec, context: ToolContext, arguments: ToolInput) -> JsonObject | None:
    """The preview, or ``None`` of a tool that has none. Raises the tool's own errors."""
    if spec.preview is None:
        return None
    try:
        with transaction.atomic():
            return spec.preview(context, arguments)
    except (BoxOfficeError, DatabaseError):
        raise
    except Exception as error:
        logger.exception("preview of %s failed", spec.name)
        raise PreviewFailed("What this would change cannot be shown; nobody is asked.") from error
