"""The REST doors of the box office. Everybody reads events and seats; a fan their own sales."""

from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema, inline_serializer
from rest_framework import serializers
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from boxoffice.common.types import brl, minor
from boxoffice.tenancy.rest import IsMember, NewestFirst, principal_of
from boxoffice.ticketing.exceptions import EventNotFound
from boxoffice.ticketing.models.sales import HoldStatus, OrderStatus
from boxoffice.ticketing.selectors import events, sales, seats
from boxoffice.ticketing.selectors.claims import FREE, HELD, SOLD

DAY = "A day in the tenant's time zone (YYYY-MM-DD)."


class Money(serializers.FloatField):
    """Centavos in the database, BRL in JSON."""

    def to_representation(self, value: Any) -> float:  # type: ignore[override]
        """``24000 -> 240.0``."""
        return brl(value)


class EventSerializer(serializers.Serializer[Any]):
    """An event with what it costs and how much of it is left."""

    id = serializers.UUIDField()
    slug = serializers.SlugField()
    title = serializers.CharField()
    category = serializers.CharField()
    description = serializers.CharField()
    starts_at = serializers.DateTimeField()
    venue = serializers.CharField(source="venue.name")
    city = serializers.CharField(source="venue.city")
    price_from_brl = Money(source="price_from", allow_null=True)
    price_to_brl = Money(source="price_to", allow_null=True)
    seats_free = serializers.IntegerField()
    sales_open = serializers.BooleanField()


class SeatSerializer(serializers.Serializer[Any]):
    """A seat as an event sells it; ``x`` and ``y`` place it on the map, the stage at the top."""

    id = serializers.UUIDField()
    section = serializers.CharField()
    row = serializers.CharField()
    number = serializers.IntegerField()
    price_brl = Money(source="price_minor")
    status = serializers.ChoiceField([FREE, HELD, SOLD])
    x = serializers.FloatField()
    y = serializers.FloatField()


class HoldSerializer(serializers.Serializer[Any]):
    """Seats kept for a while."""

    id = serializers.UUIDField()
    event = serializers.UUIDField(source="event.pk")
    seats = SeatSerializer(many=True)
    expires_at = serializers.DateTimeField()
    status = serializers.ChoiceField(HoldStatus.choices)


class OrderSerializer(serializers.Serializer[Any]):
    """What was bought."""

    id = serializers.UUIDField()
    event = serializers.UUIDField(source="event.pk")
    seats = SeatSerializer(many=True)
    total_brl = Money(source="total_minor")
    status = serializers.ChoiceField(OrderStatus.choices)


EVENT_ID = OpenApiParameter("event_id", OpenApiTypes.UUID, OpenApiParameter.PATH)


class EventFilter(serializers.Serializer[Any]):
    """The query parameters of the list of events."""

    query = serializers.CharField(required=False, default="", max_length=200, allow_blank=True)
    date_from = serializers.DateField(required=False, default=None)
    date_to = serializers.DateField(required=False, default=None)
    city = serializers.CharField(required=False, default="", max_length=100, allow_blank=True)
    max_price_brl = serializers.FloatField(
        required=False, default=None, min_value=0, max_value=1_000_000
    )


class SoonestFirst(NewestFirst):
    """Cursor pages of events."""

    ordering = ("starts_at", "id")


def _event_id(text: str) -> UUID:
    """An id from a path; what is no id names no event."""
    try:
        return UUID(text)
    except ValueError:
        raise EventNotFound from None


class EventList(GenericAPIView[Any]):
    """What is on."""

    serializer_class = EventSerializer
    pagination_class = SoonestFirst

    @extend_schema(
        operation_id="events_list",
        parameters=[
            OpenApiParameter("query", description="Words in title, category, venue or city."),
            OpenApiParameter("date_from", OpenApiTypes.DATE, description=DAY),
            OpenApiParameter("date_to", OpenApiTypes.DATE, description=DAY),
            OpenApiParameter("city"),
            OpenApiParameter("max_price_brl", float, description="Some seat costs at most this."),
        ],
        responses=EventSerializer(many=True),
    )
    def get(self, request: Request) -> Response:
        """Coming events on sale, soonest first."""
        asked = EventFilter(data=request.query_params.dict())
        asked.is_valid(raise_exception=True)
        values = dict(asked.validated_data)
        price = values.pop("max_price_brl")
        found = events.events_search(
            **values, max_price_minor=None if price is None else minor(price)
        )
        page = self.paginate_queryset(found)
        return self.get_paginated_response(EventSerializer(page, many=True).data)


class EventDetail(APIView):
    """One event."""

    @extend_schema(operation_id="events_get", parameters=[EVENT_ID], responses=EventSerializer)
    def get(self, request: Request, event_id: str) -> Response:
        """The event, also when it is over."""
        return Response(EventSerializer(events.event_get(_event_id(event_id))).data)


class EventSeats(APIView):
    """The map of an event's seats."""

    @extend_schema(
        operation_id="events_seats",
        parameters=[EVENT_ID],
        responses=inline_serializer(
            "SeatMap",
            {
                "next": serializers.URLField(allow_null=True),
                "previous": serializers.URLField(allow_null=True),
                "results": SeatSerializer(many=True),
            },
        ),
    )
    def get(self, request: Request, event_id: str) -> Response:
        """All seats in one page: a map is drawn whole."""
        event = events.event_get(_event_id(event_id))
        rows = SeatSerializer(seats.event_seat_map(event), many=True).data
        return Response({"next": None, "previous": None, "results": rows})


class HoldList(GenericAPIView[Any]):
    """A fan's own holds."""

    permission_classes = [IsMember]
    serializer_class = HoldSerializer
    pagination_class = NewestFirst

    @extend_schema(operation_id="holds_list", responses=HoldSerializer(many=True))
    def get(self, request: Request) -> Response:
        """Newest first; a hold past its time says ``expired``."""
        return _own_page(self, sales.holds_of, sales.hold_rows)


class OrderList(GenericAPIView[Any]):
    """A fan's own orders."""

    permission_classes = [IsMember]
    serializer_class = OrderSerializer
    pagination_class = NewestFirst

    @extend_schema(operation_id="orders_list", responses=OrderSerializer(many=True))
    def get(self, request: Request) -> Response:
        """Newest first."""
        return _own_page(self, sales.orders_of, sales.order_rows)


def _own_page(view: GenericAPIView[Any], rows_of: Any, as_rows: Any) -> Response:
    user_id = principal_of(view.request).user_id
    mine: QuerySet[Any] = rows_of(user_id)
    page = view.paginate_queryset(mine)
    return view.get_paginated_response(view.get_serializer(as_rows(page), many=True).data)
