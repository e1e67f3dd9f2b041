"""What is on, as a function of the date alone: seeding again only adds what is new."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, time, timedelta

FRIDAY, SATURDAY, SUNDAY = 4, 5, 6
THURSDAY = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Show:
    """Something to see. ``prices`` are centavos, one for each sector of its house, in order."""

    slug: str
    title: str
    category: str
    description: str
    prices: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Performance:
    """A show on a day."""

    show: Show
    day: date
    at: time

    @property
    def slug(self) -> str:
        """Names the performance for good."""
        return f"{self.show.slug}-{self.day.isoformat()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """A weekly place in the programme; its shows take turns, week by week."""

    weekday: int
    at: time
    shows: tuple[Show, ...]
    every: int = 1

    def show_on(self, day: date) -> Show | None:
        """The show of that day, if this slot has one."""
        week = day.toordinal() // 7
        if day.weekday() != self.weekday or week % self.every:
            return None
        return self.shows[week // self.every % len(self.shows)]


def performances(slots: tuple[Slot, ...], *, first: date, days: int) -> Iterator[Performance]:
    """What the slots have from ``first`` on, for so many days."""
    for offset in range(days):
        day = first + timedelta(days=offset)
        for slot in slots:
            show = slot.show_on(day)
            if show is not None:
                yield Performance(show=show, day=day, at=slot.at)


def _show(slug: str, title: str, category: str, prices: str, description: str) -> Show:
    amounts = tuple(int(reais) * 100 for reais in prices.split())
    return Show(slug=slug, title=title, category=category, prices=amounts, description=description)


# Arena: ouro, plateia, lateral esquerda, lateral direita, arquibancada.
_SAMBA = _show(
    "roda-de-samba-da-guanabara",
    "Roda de Samba da Guanabara",
    "samba",
    "320 220 160 160 90",
    "Velha guarda e nova geração em uma grande roda, com convidados surpresa.",
)
_ROCK = _show(
    "trovao-eletrico",
    "Trovão Elétrico: Rock Brasil 40 Anos",
    "rock",
    "480 340 240 240 130",
    "Os hinos do rock nacional dos anos 80, tocados por quem esteve lá.",
)
_MPB = _show(
    "marina-lua-mares",
    "Marina Lua: Turnê Marés",
    "mpb",
    "560 390 280 280 150",
    "A cantora apresenta o álbum Marés com banda completa e quarteto de cordas.",
)
_JAZZ = _show(
    "noite-de-jazz-na-baia",
    "Noite de Jazz na Baía",
    "jazz",
    "290 210 150 150 80",
    "Big band, quarteto e jam session até a última nota.",
)
_SERTANEJO = _show(
    "dupla-do-cerrado",
    "Dupla do Cerrado: Estrada Afora",
    "sertanejo",
    "450 310 220 220 120",
    "Modas de viola e os sucessos que o Brasil inteiro canta.",
)
_HUMOR = _show(
    "riso-solto",
    "Riso Solto: Gala de Stand-up",
    "stand-up",
    "240 180 130 130 70",
    "Cinco comediantes, um microfone e nenhuma censura. Classificação 16 anos.",
)
_CIRCO = _show(
    "circo-do-horizonte",
    "Circo do Horizonte",
    "infantil",
    "210 150 110 110 60",
    "Acrobacias, palhaços e música ao vivo para toda a família.",
)
_DINOS = _show(
    "dinossauros-ao-vivo",
    "Dinossauros ao Vivo",
    "infantil",
    "260 190 140 140 75",
    "Gigantes em tamanho real contam a história da Terra. Recomendado a partir de 5 anos.",
)
_BASQUETE = _show(
    "desafio-das-estrelas",
    "Desafio das Estrelas de Basquete",
    "esporte",
    "300 200 140 140 60",
    "As estrelas da temporada em quadra, com torneio de enterradas no intervalo.",
)
_SINFONIA = _show(
    "cinema-em-concerto",
    "Cinema em Concerto",
    "concerto",
    "380 270 190 190 100",
    "Orquestra de sessenta músicos toca trilhas de filmes inesquecíveis.",
)
_FORRO = _show(
    "forro-da-lua-cheia",
    "Forró da Lua Cheia",
    "forró",
    "230 170 120 120 65",
    "Sanfona, zabumba e triângulo até a madrugada.",
)

ARENA_SLOTS = (
    Slot(weekday=FRIDAY, at=time(21, 0), shows=(_ROCK, _SERTANEJO, _HUMOR, _FORRO, _MPB)),
    Slot(weekday=SATURDAY, at=time(16, 0), shows=(_CIRCO, _DINOS)),
    Slot(weekday=SATURDAY, at=time(21, 30), shows=(_SAMBA, _JAZZ, _MPB, _SINFONIA)),
    Slot(weekday=SUNDAY, at=time(18, 0), shows=(_BASQUETE, _SINFONIA, _FORRO), every=2),
)

# Teatro: plateia, camarotes, balcão.
_HAMLET = _show(
    "hamlet",
    "Hamlet",
    "drama",
    "180 240 80",
    "A tragédia do príncipe da Dinamarca em montagem enxuta, com dez atores em cena.",
)
_AUTO = _show(
    "o-auto-da-compadecida",
    "O Auto da Compadecida",
    "comédia",
    "140 200 60",
    "João Grilo e Chicó de volta ao palco, com música ao vivo.",
)
_BALE = _show(
    "o-quebra-nozes",
    "O Quebra-Nozes",
    "dança",
    "220 320 110",
    "O balé de Tchaikovsky com corpo de baile de quarenta bailarinos.",
)
_MUSICAL = _show(
    "elis-o-musical",
    "Elis, Essa Mulher: o Musical",
    "musical",
    "260 360 130",
    "A vida e a voz de Elis Regina em duas horas de canções.",
)
_PRINCIPE = _show(
    "o-pequeno-principe",
    "O Pequeno Príncipe",
    "infantil",
    "90 130 45",
    "O clássico de Saint-Exupéry com bonecos e projeções. Livre.",
)
_PEDRO = _show(
    "pedro-e-o-lobo",
    "Pedro e o Lobo",
    "infantil",
    "80 120 40",
    "Cada bicho é um instrumento: uma primeira orquestra para as crianças.",
)
_CAMERA = _show(
    "bach-a-luz-de-velas",
    "Bach à Luz de Velas",
    "concerto",
    "160 230 75",
    "Suítes e concertos de Brandemburgo, com instrumentos de época.",
)
_MONOLOGO = _show(
    "a-hora-da-estrela",
    "A Hora da Estrela",
    "drama",
    "120 170 50",
    "Macabéa, de Clarice Lispector, em monólogo premiado.",
)
_IMPROVISO = _show(
    "improviso-as-dez",
    "Improviso às Dez",
    "comédia",
    "95 140 45",
    "A plateia dá o tema e o elenco se vira. Classificação 14 anos.",
)

TEATRO_SLOTS = (
    Slot(weekday=THURSDAY, at=time(20, 0), shows=(_CAMERA, _MONOLOGO), every=2),
    Slot(weekday=FRIDAY, at=time(20, 30), shows=(_HAMLET, _IMPROVISO, _MONOLOGO)),
    Slot(weekday=SATURDAY, at=time(15, 0), shows=(_PRINCIPE, _PEDRO)),
    Slot(weekday=SATURDAY, at=time(20, 30), shows=(_AUTO, _MUSICAL, _BALE, _HAMLET)),
    Slot(weekday=SUNDAY, at=time(18, 0), shows=(_AUTO, _CAMERA, _MUSICAL), every=2),
)
