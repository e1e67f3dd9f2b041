"""Two box offices full of things that are not the caller's, and what a look at all of them shows.

Everything that belongs to somebody carries a canary: a word that must never turn up in what
another one is told.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

from django.apps import apps
from django.db import models

from agents.models import Message, Speaker
from boxoffice.common.batch import Batch
from boxoffice.common.clock import now
from boxoffice.tenancy.models import Membership, Tenant, TenantModel, Tier
from boxoffice.tenancy.scope import operator_scope
from boxoffice.ticketing.models import Event, Hold
from boxoffice.ticketing.services.emails import email_queue
from boxoffice.ticketing.services.holds import hold_create
from boxoffice.ticketing.services.tickets import ticket_create
from tests.support.cast import Cast, make_cast
from tests.ticketing.buying import order_place, order_refund
from tools import effects
from tools.models import StoredOutput
from tools.permissions import Caller

# Seats of each tenant that stay free for everybody, and whose each of the others are.
FREE = ("P-C1", "P-C2", "P-C3", "P-C4")
OWNED = {
    "ana": ("P-A1", "P-A2", "P-A3", "P-A4"),
    "fabio": ("P-B1", "P-B2", "P-B3", "P-B4"),
    "teo": ("P-A1", "P-A2", "P-A3", "P-A4"),
}
HOUSE = {"ana": "arena", "fabio": "arena", "teo": "teatro"}
CANARY = re.compile(r"canary-\w+-\w+")
UUIDS = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")

# Whose a row is, where it does not say so itself.
_OWNER = {
    "ticketing_seatclaim": "(SELECT h.user_id FROM ticketing_hold h WHERE h.id = t.hold_id)",
    "ticketing_payment": "(SELECT o.user_id FROM ticketing_order o WHERE o.id = t.order_id)",
    "ticketing_refund": "(SELECT o.user_id FROM ticketing_order o WHERE o.id = t.order_id)",
    "approvals_approvalrequest": "t.requested_for_id",
}
LEDGER = "tools_toolcall"

type Whose = tuple[str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """What one fan has; ids as text."""

    hold: str
    order: str
    refunded: str
    ticket: str
    email: str
    output: str
    conversation: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class House:
    """What everybody may see of one tenant."""

    event: str
    seats: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Both tenants. ``private`` says whose each id is: tenant, and user if it is a fan's."""

    casts: dict[str, Cast]
    houses: dict[str, House]
    owned: dict[str, Own]
    private: dict[str, tuple[str, int | None]]
    callers: dict[str, Caller]
    conversations: dict[str, UUID]
    canaries: dict[Caller, set[str]]

    def leaks(self, caller: Caller, sent: Any, told: Any) -> list[str]:
        """What of others is in the answer and was not in the question."""
        text, known = _as_text(told), _as_text(sent)
        mine = (str(caller.tenant_id), caller.user_id)
        found = [
            each
            for each in UUIDS.findall(text)
            if each in self.private and each not in known and self._is_of_another(each, mine)
        ]
        allowed = self.canaries[caller]
        return found + [each for each in CANARY.findall(text) if each not in allowed]

    def _is_of_another(self, found: str, mine: tuple[str, int | None]) -> bool:
        tenant, user = self.private[found]
        return tenant != mine[0] or (user is not None and user != mine[1])


def _as_text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def make_world() -> World:
    """Plant everything; committed by whoever calls this."""
    casts = {slug: make_cast(slug) for slug in ("arena", "teatro")}
    for slug, cast in casts.items():
        with cast.scope():
            Tier.objects.create(
                slug="bare", name="bare", model_alias="m", tools=[], rate_per_min=10_000
            )
            Event.objects.filter(pk=cast.seats.event.pk).update(
                title=f"Noite canary-{slug}-public", description=f"canary-{slug}-public"
            )
    owned = {name: _plant(casts[slug], name) for name, slug in HOUSE.items()}
    with casts["arena"].scope():
        rosa = casts["arena"].user("rosa").pk
        Membership.objects.filter(user_id=rosa).update(tier=Tier.objects.get(slug="bare"))
    callers = _callers(casts)
    return World(
        casts=casts,
        houses={slug: _house(cast) for slug, cast in casts.items()},
        owned=owned,
        private=_private(casts),
        callers=callers,
        conversations={
            who: owned[who].conversation if who in owned else uuid4() for who in callers
        },
        canaries={caller: _canaries(casts, caller) for caller in callers.values()},
    )


def _canaries(casts: dict[str, Cast], caller: Caller) -> set[str]:
    """What the caller may read: what is public in the tenant, and their own."""
    (slug,) = [slug for slug, cast in casts.items() if cast.tenant.pk == caller.tenant_id]
    own = {name for name in HOUSE if casts[slug].user(name).pk == caller.user_id}
    return {f"canary-{slug}-{name}" for name in own | {"public"}}


def _callers(casts: dict[str, Cast]) -> dict[str, Caller]:
    """Everybody on whose behalf calls are made, and three who have no business where they are."""
    arena, teatro = casts["arena"].tenant, casts["teatro"].tenant

    def of(tenant: Tenant, user_id: int | None) -> Caller:
        return Caller(
            tenant_id=tenant.pk,
            user_id=user_id,
            time_zone=tenant.time_zone,
            language=tenant.language,
        )

    return {
        "visitor": of(arena, None),
        "ana": of(arena, casts["arena"].user("ana").pk),
        "reviewer": of(arena, casts["arena"].user("rita").pk),
        "admin": of(arena, casts["arena"].user("ada").pk),
        "of a tier without tools": of(arena, casts["arena"].user("rosa").pk),
        "teo": of(teatro, casts["teatro"].user("teo").pk),
        "teo in arena": of(arena, casts["teatro"].user("teo").pk),
        "fabio in teatro": of(teatro, casts["arena"].user("fabio").pk),
        "nobody": of(arena, 2_000_000_000),
    }


def _house(cast: Cast) -> House:
    return House(
        event=str(cast.seats.event.pk), seats=tuple(str(pk) for pk in cast.seats.ids(*FREE))
    )


def _plant(cast: Cast, name: str) -> Own:
    canary = f"canary-{cast.tenant.slug}-{name}"
    user = cast.user(name)
    conversation = cast.conversation(name).pk
    held, given_back, *bought = OWNED[name]
    with cast.scope():
        Message.objects.create(conversation_id=conversation, speaker=Speaker.FAN, text=canary)
        event = cast.seats.event.pk
        paid = hold_create(event_id=event, seat_ids=cast.seats.ids(*bought), user_id=user.pk)
        order = order_place(hold_id=paid.pk, user_id=user.pk, payment_key=canary)
        once = hold_create(event_id=event, seat_ids=cast.seats.ids(given_back), user_id=user.pk)
        refunded = order_place(hold_id=once.pk, user_id=user.pk, payment_key=f"{canary}-2")
        order_refund(order_id=refunded.pk, user_id=user.pk, reason=canary, refund_key=f"{canary}-3")
        hold = hold_create(event_id=event, seat_ids=cast.seats.ids(held), user_id=user.pk)
        # A storm takes longer than a hold lasts.
        Hold.objects.filter(pk=hold.pk).update(expires_at=now() + timedelta(days=1))
        ticket = ticket_create(subject=canary, body=canary, user_id=user.pk, key=canary)
        email = email_queue(
            to=f"{canary}@example.com", subject=canary, body=canary, user_id=user.pk, key=canary
        )
        caller = Caller(
            tenant_id=cast.tenant.pk, user_id=user.pk, time_zone="UTC", language="pt-br"
        )
        (call,) = effects.calls_propose(
            caller=caller,
            proposals=[effects.Proposal(call_id="c", tool="search_events", arguments={})],
            origin="test",
            run_id=uuid4(),
            conversation_id=conversation,
            key_prefix=str(uuid4()),
        )
        output = StoredOutput.objects.create(
            call=call,
            conversation_ref=conversation,
            text=canary,
            total_bytes=len(canary),
            total_lines=1,
        )
    return Own(
        hold=str(hold.pk),
        order=str(order.pk),
        refunded=str(refunded.pk),
        ticket=str(ticket.pk),
        email=str(email.pk),
        output=str(output.pk),
        conversation=conversation,
    )


def _private(casts: dict[str, Cast]) -> dict[str, tuple[str, int | None]]:
    """Every row's id: the tenant that it is of, and the fan, if it is one's."""
    found: dict[str, tuple[str, int | None]] = {}
    with operator_scope("test"):
        for model in tenant_models():
            owner = "user_id" if any(f.attname == "user_id" for f in model._meta.fields) else None
            for row in model._default_manager.all():
                whose = getattr(row, owner) if owner else None
                found[str(row.pk)] = (str(row.tenant_id), whose)  # type: ignore[attr-defined]
    return found


def tenant_models() -> list[type[models.Model]]:
    """The tables with a tenant."""
    return [model for model in apps.get_models() if issubclass(model, TenantModel)]


def _tables() -> Iterator[tuple[str, str, str]]:
    """Each table of ours but the ledger, with what says whose a row is."""
    for model in apps.get_models(include_auto_created=True):
        table = model._meta.db_table
        if not model._meta.managed or table == LEDGER:
            continue
        columns = {field.column for field in model._meta.fields}
        tenant = "t.tenant_id" if "tenant_id" in columns else "NULL"
        owner = _OWNER.get(table, "t.user_id" if "user_id" in columns else "NULL")
        yield table, tenant, owner


class Look:
    """A picture of all tables by whose the rows are, all tenants at once."""

    def __init__(self) -> None:
        self._text = "\nUNION ALL\n".join(
            f"SELECT '{table}', {tenant}::text, {owner}::text, "
            f"md5(string_agg(md5(t::text), '' ORDER BY md5(t::text))) FROM {table} t GROUP BY 2, 3"
            for table, tenant, owner in _tables()
        )

    def take(self) -> dict[Whose, str]:
        """What there is now, as (table, tenant, user) and a digest; no scope is open."""
        batch = Batch()  # which lets the server plan so long a query only once
        batch.add(self._text)
        with operator_scope("test"):
            (answer,) = batch.send()
        return {(t, tenant or "", user or ""): md5 for t, tenant, user, md5 in answer.rows}


def changed(before: dict[Whose, str], after: dict[Whose, str]) -> set[Whose]:
    """Where the two pictures differ."""
    return {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
