"""What a message wants done."""

import re
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from functools import lru_cache

from agents.llm.demo.slots import Slots, find_slots
from agents.llm.demo.text import (
    bare_number,
    detect_language,
    find_email,
    find_order_ids,
    find_ordinal,
    fold,
    tokens,
)

READ_AT_MOST = 2_000  # characters of one message; a longer one says what it wants before that


class Intent(StrEnum):
    """The things a fan asks for, and the small talk around them."""

    EVENTS = "events"
    SEATS = "seats"
    HOLD = "hold"
    MY_HOLDS = "my_holds"
    RELEASE = "release"
    BUY = "buy"
    ORDER = "order"
    REFUND = "refund"
    EMAIL = "email"
    TICKET = "ticket"
    GREET = "greet"
    HOW_ARE_YOU = "how_are_you"
    THANKS = "thanks"
    WHO = "who"
    HELP = "help"
    BYE = "bye"
    YES = "yes"
    NO = "no"
    NEVER_MIND = "never_mind"
    UNKNOWN = "unknown"


SMALL_TALK = frozenset(
    {
        Intent.GREET,
        Intent.HOW_ARE_YOU,
        Intent.THANKS,
        Intent.WHO,
        Intent.HELP,
        Intent.BYE,
        Intent.NO,
        Intent.NEVER_MIND,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One message of the fan, understood. `is_fragment`: it only makes sense after another."""

    text: str
    folded: str
    intent: Intent
    slots: Slots = field(default_factory=Slots)
    language: str | None = None
    number: int | None = None
    ordinal: int | None = None
    order_ids: tuple[str, ...] = ()
    email: str = ""
    is_fragment: bool = False


# The first that matches wins: what undoes or costs something stands before what searches.
_RULES: tuple[tuple[Intent, re.Pattern[str]], ...] = tuple(
    (intent, re.compile(pattern))
    for intent, pattern in (
        (
            Intent.WHO,
            r"\b(?:quem (?:e|sao) voces?|quem (?:ta|esta) ai|(?:voce|vc) e (?:um |uma )?(?:robo"
            r"|humano|ia|"
            r"bot|pessoa)|qual (?:e )?(?:o )?seu nome|who are you|what are you|are you (?:a |an )?"
            r"(?:bot|human|robot|real|ai)|your name)\b",
        ),
        (
            Intent.EMAIL,
            r"\b(?:mand\w*|envi\w*|escrev\w*|dispar\w*|send|write|shoot)\b.{0,60}\be-?mail\b"
            r"|\be-?mail (?:para|pra|to)\b|^e-?mail\b",
        ),
        (
            Intent.TICKET,
            r"\b(?:chamado|atendente|atendimento|suporte|humano|pessoa de verdade|ouvidoria|gerente"
            r"|falar com (?:alguem|uma pessoa|voces)|reclama\w*|human|support|representative|"
            r"real person|(?:talk|speak) (?:to|with) (?:someone|a person|an? agent|somebody)"
            r"|complain\w*"
            r"|open a (?:support )?ticket|(?:an? )?(?:live )?agent|manager)\b",
        ),
        (
            Intent.REFUND,
            r"\b(?:reembols\w*|estorn\w*|refund\w*|money back|dinheiro de volta)\b"
            r"|\bdevol\w+.{0,25}\b(?:dinheiro|valor|pagamento|grana)\b"
            r"|\bcancel\w*\s+(?:(?:o|a|os|as|meu|minha|this|the|my|esse|essa)\s+)*"
            r"(?:pedido|compra|order|purchase)\b",
        ),
        (
            Intent.RELEASE,
            r"\b(?:liber[ae]\w*|solt[ae]r?|release|let (?:them|it|the seats) go)\b"
            r"|\b(?:cancel\w*|desfa\w+|desist\w+ d[ao]|drop|tir[ae]r?|remov\w+|give up)\s+"
            r"(?:(?:o|a|os|as|meu|minha|meus|minhas|this|the|my|that|essa|esses|todas)\s+)*"
            r"(?:reservas?|assentos|lugares|holds?|reservations?|bookings?|seats)\b"
            r"|\bnao quero mais (?:(?:os|as|esses|essa|a|minha)\s+)?(?:assentos|lugares|reserva"
            r"|ingressos)\b"
            r"|\bdon't want (?:the|those|these|my) (?:seats|tickets)\b|^cancel[ae]?r?\W*$",
        ),
        (
            Intent.ORDER,
            r"\b(?:status|situacao|andamento|cade|onde (?:esta|ta)|como (?:esta|ta)|acompanhar"
            r"|consult\w+"
            r"|where(?:'s| is)|track|check|ver|mostr\w+)\b.{0,30}\b(?:pedidos?|compra|orders?"
            r"|purchase)\b"
            r"|\b(?:meus? pedidos?|minhas? compras?|my (?:last )?(?:orders?|purchases?)|order"
            r" status)\b"
            r"|\b(?:pedido|order)\s+(?:n\w*\s*)?[0-9a-f]{8}-",
        ),
        (
            Intent.MY_HOLDS,
            r"\b(?:tenho|cade|onde|qual|quais|ver|mostr\w+|status|quanto"
            r" tempo)\b.{0,25}\breservas?\b"
            r"|\bminhas? reservas?\b|\b(?:my|what|any|which|show) (?:\w+ )?(?:holds?"
            r"|reservations?)\b"
            r"|\bhow long\b.{0,20}\b(?:hold|held)\b",
        ),
        (
            Intent.NEVER_MIND,
            r"\b(?:deixa (?:pra|para) la|esquec[ea]|nada nao|desisti|desisto|never ?mind|forget"
            r" it)\b"
            r"(?!.*\b(?:reserva|pedido|hold|order)\b)",
        ),
        (
            Intent.BUY,
            r"\b(?:compr[ae]r?|compre|comprar|compra-l\w+|compr[ae]-[oa]s|fech[aeo]r?|fechado"
            r"|fechou|"
            r"pag[aou]\w*|finaliz\w+|checkout|confirm[aeo]r? a compra|buy|purchase|go ahead|"
            r"place (?:the|my) order|i'll take (?:it|them)|pay|take my money|complete (?:the|my)"
            r" order)\b",
        ),
        (
            Intent.HOLD,
            r"\b(?:reserv[ae]\w*(?:-\w+)?|segur[ae]\w*(?:-\w+)?|garant\w+|guard[ae]\w*(?:-\w+)?|"
            r"separ[ae]r?(?:-\w+)?|peg(?:ue|a|ar)(?:-\w+)?|hold|book|reserve|grab|save me|get"
            r" me)\b",
        ),
        (
            Intent.SEATS,
            r"\b(?:assentos?|lugar(?:es)?|ingressos?|entradas?|cadeiras?|poltronas?|bilhetes?"
            r"|seats?|"
            r"tickets?)\b",
        ),
        (
            Intent.EVENTS,
            r"\b(?:eventos?|shows?|espetaculos?|pecas?|programacao|agenda|atracoes|concerts?|gigs?|"
            r"plays?|performances?|events?|o que (?:tem|ha|rola|vai ter|esta rolando|esta"
            r" passando)|"
            r"tem algo|tem alguma coisa|what's (?:on|happening)|what is on|anything on|happening|"
            r"encontr\w+|procur\w+|busc\w+|find|search|look(?:ing)? for|assistir|ver|watch|jogos?"
            r"|filmes?|"
            r"musica\w*|sair|passear|fazer|going out|to do)\b",
        ),
    )
)
_SHORT_RULES: tuple[tuple[Intent, re.Pattern[str]], ...] = tuple(
    (intent, re.compile(pattern))
    for intent, pattern in (
        (
            Intent.YES,
            r"^\W*(?:sim|pode(?: ser| sim)?|claro|isso(?: mesmo)?|ok(?:ay)?|beleza|blz|com"
            r" certeza|quero|"
            r"aceito|bora|manda ver|perfeito|otimo|confirmo|confirmar|certo|positivo|uhum|aham|s|"
            r"yes|yep|yeah|yup|sure|please do|of course|go for it|do it|perfect|great|absolutely|"
            r"sounds good|y)\b",
        ),
        (Intent.NO, r"^\W*(?:nao|agora nao|melhor nao|no|nope|nah|not now|negativo|n)\b"),
        (
            Intent.THANKS,
            r"\b(?:obrigad[oa]|valeu|brigad[oa]|agradeco|thanks?|thank you|thx|cheers)\b",
        ),
        (
            Intent.BYE,
            r"\b(?:tchau|ate (?:logo|mais|breve|amanha)|adeus|falou|bye|goodbye|see you)\b",
        ),
        (
            Intent.HOW_ARE_YOU,
            r"\b(?:tudo (?:bem|bom|certo)|como vai|como voce esta|how are you|how's it)\b",
        ),
        (
            Intent.HELP,
            r"\b(?:ajuda\w*|socorro|help|o que (?:voce|vc) (?:faz|pode|sabe)|como funciona|"
            r"what can you do|how does (?:this|it) work|menu|opcoes|options)\b",
        ),
        (
            Intent.GREET,
            r"^\W*(?:oi+|ola|opa|e ai|eai|bom dia|boa tarde|boa noite|alo|hi|hello|hey|hiya|"
            r"good (?:morning|afternoon|evening))\b",
        ),
    )
)
_CONTINUES = re.compile(r"^\W*(?:e|ou|mas|and|or|but|what about|how about|que tal|entao|then)\b")


@lru_cache(maxsize=2_048)  # the same history is read again at every step
def understand(text: str, today: date) -> Said:
    """Read one message of the fan."""
    text = text.strip()[:READ_AT_MOST]
    folded = fold(text)
    slots = find_slots(text, today)
    intent = _intent(folded, slots)
    ordinal = find_ordinal(folded)
    email = find_email(text)
    return Said(
        text=text,
        folded=folded,
        intent=intent,
        slots=slots,
        language=detect_language(text),
        number=bare_number(folded),
        ordinal=ordinal[0] if ordinal else None,
        order_ids=tuple(find_order_ids(text)),
        email=email[0] if email else "",
        is_fragment=_is_fragment(folded, intent),
    )


def _intent(folded: str, slots: Slots) -> Intent:
    found = tokens(folded)
    if len(found) <= 6:
        for intent, pattern in _SHORT_RULES[:2]:
            if pattern.search(folded) and not _asks_more(folded, slots):
                return intent
    for intent, pattern in _RULES:
        if pattern.search(folded):
            return intent
    if find_order_ids(folded):
        return Intent.ORDER
    for intent, pattern in _SHORT_RULES[2:]:
        if pattern.search(folded):
            return intent
    if slots.quantity or slots.sits_apart:
        return Intent.SEATS
    if slots.dates or slots.max_price or slots.city:
        return Intent.EVENTS
    return _guess(folded, found, slots)


def _asks_more(folded: str, slots: Slots) -> bool:
    """A yes that goes on ("sim, pode comprar", "no, the second option") is more than a yes."""
    if slots.quantity or slots.dates or slots.max_price or slots.sits_apart:
        return True
    if find_ordinal(folded):
        return True
    return any(pattern.search(folded) for _, pattern in _RULES)


def _guess(folded: str, found: list[str], slots: Slots) -> Intent:
    """A few words that are no question may be a title or a genre; else it was not understood."""
    if slots.query and len(found) <= 5 and "?" not in folded:
        return Intent.EVENTS
    return Intent.UNKNOWN


def _is_fragment(folded: str, intent: Intent) -> bool:
    if intent not in (Intent.EVENTS, Intent.SEATS):
        return False
    named = any(pattern.search(folded) for rule, pattern in _RULES if rule is intent)
    return not named or bool(_CONTINUES.match(folded))
