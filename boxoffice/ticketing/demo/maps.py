"""Seat maps of the demo's two houses, as rows of seats on arcs around the stage.

Lengths are seat widths; the stage's centre is the origin, and y grows away from the stage.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import cos, radians, sin

ROW_DEPTH = 1.25
SEAT_WIDTH = 1.08


@dataclass(frozen=True, slots=True, kw_only=True)
class SeatPlace:
    """A seat before it is stored."""

    row: str
    number: int
    x: float
    y: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Rows on arcs: the first at ``radius``, centred on ``angle`` degrees (0 faces the stage)."""

    rows: tuple[str, ...]
    seats: int
    radius: float
    angle: float = 0.0
    growth: int = 0

    def places(self) -> Iterator[SeatPlace]:
        """The seats, numbered from left to right."""
        for index, row in enumerate(self.rows):
            radius = self.radius + index * ROW_DEPTH
            count = self.seats + index * self.growth
            for number in range(1, count + 1):
                offset = (number - (count + 1) / 2) * SEAT_WIDTH / radius
                theta = radians(self.angle) + offset
                yield SeatPlace(
                    row=row,
                    number=number,
                    x=round(radius * sin(theta), 2),
                    y=round(radius * cos(theta), 2),
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sector:
    """A section of the house with its blocks."""

    name: str
    colour: str
    blocks: tuple[Block, ...]

    def places(self) -> list[SeatPlace]:
        """All seats of the sector."""
        return [place for block in self.blocks for place in block.places()]


@dataclass(frozen=True, slots=True, kw_only=True)
class House:
    """A venue with its sectors, the dearest first."""

    name: str
    city: str
    address: str
    sectors: tuple[Sector, ...]


def _letters(first: str, count: int) -> tuple[str, ...]:
    return tuple(chr(ord(first) + i) for i in range(count))


ARENA = House(
    name="Arena Guanabara",
    city="Rio de Janeiro",
    address="Av. Beira-Mar, 1500, Centro",
    sectors=(
        Sector(
            name="Cadeira Ouro",
            colour="#b45309",
            blocks=(Block(rows=_letters("A", 5), seats=16, radius=9, growth=1),),
        ),
        Sector(
            name="Plateia Central",
            colour="#1d4ed8",
            blocks=(Block(rows=_letters("F", 8), seats=20, radius=16.5, growth=1),),
        ),
        Sector(
            name="Lateral Esquerda",
            colour="#0f766e",
            blocks=(Block(rows=_letters("A", 6), seats=10, radius=17, angle=-66),),
        ),
        Sector(
            name="Lateral Direita",
            colour="#0f766e",
            blocks=(Block(rows=_letters("A", 6), seats=10, radius=17, angle=66),),
        ),
        Sector(
            name="Arquibancada",
            colour="#7e22ce",
            blocks=(Block(rows=_letters("N", 7), seats=28, radius=28.5),),
        ),
    ),
)

TEATRO = House(
    name="Teatro Aurora",
    city="São Paulo",
    address="Rua da Consolação, 820, República",
    sectors=(
        Sector(
            name="Plateia",
            colour="#b91c1c",
            blocks=(Block(rows=_letters("A", 10), seats=12, radius=22),),
        ),
        Sector(
            name="Camarotes",
            colour="#a16207",
            blocks=(
                *(
                    Block(rows=(f"C{i + 1}",), seats=4, radius=22.5 + i * 2, angle=-27 + i)
                    for i in range(5)
                ),
                *(
                    Block(rows=(f"C{i + 6}",), seats=4, radius=22.5 + i * 2, angle=27 - i)
                    for i in range(5)
                ),
            ),
        ),
        Sector(
            name="Balcão",
            colour="#15803d",
            blocks=(Block(rows=_letters("L", 4), seats=15, radius=37),),
        ),
    ),
)
