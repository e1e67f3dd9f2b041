"""What several tools take and give: text, seats, instants, and who is asking."""

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated
from uuid import UUID
from zoneinfo import ZoneInfo

from django.utils.translation import gettext as _
from pydantic import AfterValidator, Field, StringConstraints

from boxoffice.common.exceptions import Forbidden
from boxoffice.common.types import JsonObject, brl
from boxoffice.ticketing.selectors.seats import SeatRow
from tools.outside import OutsideText
from tools.spec import ToolContext, ToolOutput

SOURCE = "box office"


def _printable(text: str) -> str:
    # PostgreSQL stores no NUL; the other control characters have no place in what people read.
    if any(ord(char) < 32 and char not in "\n\t\r" for char in text):
        raise ValueError("control characters are not allowed")
    return text


def _one_line(text: str) -> str:
    if "\n" in text or "\r" in text:
        raise ValueError("must be one line")
    return text


Text = Annotated[str, StringConstraints(strip_whitespace=True), AfterValidator(_printable)]
Line = Annotated[Text, AfterValidator(_one_line)]


class SignInRequired(Forbidden):
    """A visitor has no holds and no orders."""

    code = "sign_in_required"
    hint = "Ask the fan to sign in first."


class SeatOut(ToolOutput):
    """A seat; its price is in BRL."""

    id: UUID
    section: OutsideText
    row: OutsideText
    number: int
    price_brl: float = Field(description="Price of this one seat in BRL.")


def seats_out(seats: Iterable[SeatRow]) -> list[SeatOut]:
    """Seats as the model sees them."""
    return [
        SeatOut(
            id=seat.id,
            section=seat.section,
            row=seat.row,
            number=seat.number,
            price_brl=brl(seat.price_minor),
        )
        for seat in seats
    ]


def seats_shown(seats: Iterable[SeatRow], status: str) -> list[JsonObject]:
    """Seats as a preview shows them to a person."""
    return [
        {
            "section": seat.section,
            "row": seat.row,
            "number": seat.number,
            "price_brl": brl(seat.price_minor),
            "status": status,
        }
        for seat in seats
    ]


def local(context: ToolContext, moment: datetime) -> str:
    """An instant in ISO 8601 with the tenant's offset, to the second."""
    return moment.astimezone(ZoneInfo(context.time_zone)).isoformat(timespec="seconds")


def fan_id(context: ToolContext) -> int:
    """The signed-in fan for whom the call is. Raises ``SignInRequired`` for a visitor."""
    if context.user_id is None:
        raise SignInRequired(_("This is only for fans who have signed in."))
    return context.user_id


def money(minor: int) -> str:
    """Centavos for a person to read: ``240000 -> R$ 2.400,00``."""
    whole, cents = divmod(minor, 100)
    return f"R$ {whole:,}".replace(",", ".") + f",{cents:02d}"
