"""What people write down when they settle something that the machine could not."""

from django.utils.translation import gettext as _

from boxoffice.common.exceptions import InvalidInput
from boxoffice.common.types import storable

NOTE_LEAST, NOTE_MOST = 3, 2000


def note_checked(note: str, *, hint: str) -> str:
    """The note as it is kept: without NULs, then without space around it.

    Raises ``InvalidInput`` with ``hint`` unless 3 to 2,000 characters are left.
    """
    kept: str = storable(note.replace("\0", "")).strip()
    if not NOTE_LEAST <= len(kept) <= NOTE_MOST:
        raise InvalidInput(
            _("note: between %(least)d and %(most)d characters.")
            % {"least": NOTE_LEAST, "most": NOTE_MOST},
            hint=hint,
        )
    return kept
