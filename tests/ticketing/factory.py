"""A small house: one venue of two sections, one event, and its fans."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

from boxoffice.common import clock
from boxoffice.tenancy.models import Membership, Role, Tenant, Tier, User
from boxoffice.tenancy.scope import tenant_scope
from boxoffice.ticketing.models import Event, Price, Seat, SeatClaim, Section, Venue

ROWS = "ABC"
SEATS_PER_ROW = 8
PRICES = {"Plateia": 24_000, "Balcão": 9_050}


@dataclass
class House:
    """Everything of one tenant that a test needs, by name."""

    tenant: Tenant
    venue: Venue
    event: Event
    ana: User
    fabio: User
    seats: dict[str, Seat] = field(default_factory=dict)

    def ids(self, *names: str) -> list[UUID]:
        """Seat ids by name: ``"P-A1"`` (Plateia) or ``"B-A1"`` (Balcão)."""
        return [self.seats[name].pk for name in names]

    def live(self) -> int:
        """How many claims are not released."""
        return SeatClaim.objects.filter(released_at__isnull=True).count()


# Tests write more often than people do.
OFTEN = {"rate_per_min": 10_000}


def make_tenant(slug: str) -> Tenant:
    """A tenant with the tier of visitors."""
    tenant = Tenant.objects.create(slug=slug, name=slug.title())
    with tenant_scope(tenant.pk):
        Tier.objects.create(slug="anonymous", name="a", model_alias="m", is_anonymous=True, **OFTEN)
        Tier.objects.create(slug="pro", name="pro", model_alias="m", **OFTEN)
    return tenant


def make_user(tenant: Tenant, name: str, role: str = Role.FAN) -> User:
    """A member; the password is not needed."""
    user = User.objects.create(username=f"{name}-{tenant.slug}", email=f"{name}@example.com")
    with tenant_scope(tenant.pk):
        Membership.objects.create(user=user, tier=Tier.objects.get(slug="pro"), role=role)
    return user


def make_event(venue: Venue, title: str, starts_at: datetime, **fields: object) -> Event:
    """An event of ``venue`` with prices for all of its sections."""
    event = Event.objects.create(
        venue=venue,
        title=title,
        slug=f"{title}-{starts_at:%Y%m%d%H%M}".lower().replace(" ", "-"),
        starts_at=starts_at,
        **fields,
    )
    for section in Section.objects.filter(venue=venue):
        Price.objects.create(event=event, section=section, amount_minor=PRICES[section.name])
    return event


def make_house(slug: str = "arena") -> House:
    """A tenant with 48 seats and an event in five days."""
    tenant = make_tenant(slug)
    with tenant_scope(tenant.pk):
        venue = Venue.objects.create(name="Casa", city="São Paulo")
        seats: dict[str, Seat] = {}
        for position, name in enumerate(PRICES):
            section = Section.objects.create(venue=venue, name=name, position=position)
            made = Seat.objects.bulk_create(
                Seat(tenant=tenant, section=section, row=row, number=n, x=n, y=ROWS.index(row))
                for row in ROWS
                for n in range(1, SEATS_PER_ROW + 1)
            )
            seats |= {f"{name[0]}-{seat.row}{seat.number}": seat for seat in made}
        event = make_event(
            venue,
            "Noite de Jazz",
            clock.now() + timedelta(days=5),
            category="show",
            description="Quarteto às nove.",
        )
    ana, fabio = make_user(tenant, "ana"), make_user(tenant, "fabio")
    return House(tenant=tenant, venue=venue, event=event, ana=ana, fabio=fabio, seats=seats)


@contextmanager
def at(monkeypatch: object, moment: datetime) -> Iterator[None]:
    """The clock stands at ``moment``."""
    with monkeypatch.context() as patch:  # type: ignore[attr-defined]
        patch.setattr(clock, "now", lambda: moment)
        yield
