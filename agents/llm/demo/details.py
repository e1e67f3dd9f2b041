"""The details of a request in the fan's own words: a reason, a subject, a message, a topic."""

import re

from agents.llm.demo import words
from agents.llm.demo.text import fold, tokens

MOST_DETAIL = 500  # characters; what the tools take of a reason

_REASON = re.compile(
    r"\b(?:porque|por que|pois|ja que|uma vez que|por causa d[eoa]|devido a|por motivo de|"
    r"(?:o )?motivo(?: e(?: que)?)?\s*:?|because(?: of)?|since|due to|as(?= (?:i|we)\b)|"
    r"(?:the )?reason(?: is(?: that)?)?\s*:?)\s+(?P<reason>\S.*)",
    re.DOTALL,
)
_EXCUSE = re.compile(
    r"\b(?:nao (?:posso|vou|consigo|poderei|da)|adoec\w+|doente|imprevisto|emergenc\w+|engan\w+"
    r"|errad\w+|"
    r"viaj\w+|mudou|duplicad\w+|can't|cannot|won't|unable|sick|ill|mistake|wrong|changed"
    r"|travel\w*)\b"
)
_SUBJECT = re.compile(
    r"\b(?:(?:com )?(?:o )?assunto|(?:with )?(?:the )?subject)\s*(?:e|is|de)?\s*[:=]?\s*"
    r"(?P<subject>.+?)(?=\s*[,;]?\s*\b(?:(?:e |and )?(?:com )?(?:o |the )?(?:texto|mensagem|corpo"
    r"|body|"
    r"message|text)\b|dizendo|saying|that says)|[.;\n]|$)"
)
_BODY = re.compile(
    r"(?:\b(?:dizendo|falando|avisando|contando|saying|telling (?:them|him|her)|that says)"
    r"(?:\s+(?:que|that))?|\b(?:com )?(?:o |a |the )?(?:texto|mensagem|corpo|body|message|text)"
    r"(?:\s+(?:e|is|de))?)\s*[:=]?\s*(?P<body>\S.*)",
    re.DOTALL,
)
_ABOUT = re.compile(
    r"(?:\b(?:sobre|about|regarding|dizendo(?: que)?|saying(?: that)?)\s+|:\s*)(?P<body>\S.*)"
)


def find_reason(text: str) -> str:
    """Return why, in the fan's own words: after "porque", or the clause that excuses."""
    folded = fold(text)
    match = _REASON.search(folded)
    if match:
        return _tidy(text[match.start("reason") :])
    for clause in re.split(r"[,.;!\n]|\be quero\b|\bso i\b|\bentao\b", text):
        if _EXCUSE.search(fold(clause)):
            return _tidy(clause)
    return ""


def find_subject(text: str) -> str:
    match = _SUBJECT.search(fold(text))
    return _tidy(text[slice(*match.span("subject"))]) if match else ""


def find_body(text: str) -> str:
    match = _BODY.search(fold(text))
    return _tidy(text[match.start("body") :]) if match else ""


def find_topic(text: str) -> str:
    """Return what a support request is about, when the message says so."""
    match = _ABOUT.search(fold(text)) or _REASON.search(fold(text))
    return _tidy(text[match.start(match.lastindex or 1) :]) if match else ""


def title_words(title: str) -> list[str]:
    """Return the words of a title that tell it from others, folded."""
    return [
        word
        for word in tokens(fold(title))
        if word not in words.FILLERS and word not in words.CONNECTORS
    ]


def _tidy(text: str) -> str:
    return text.strip(" \t\n\"'“”.,;:!-")[:MOST_DETAIL]


# What the seat map of the chat page adds to a message: the seats that were tapped.
_ID = r"[0-9a-f-]{36}"
_PICK = re.compile(rf"\s*\[event (?P<event>{_ID}) seats (?P<seats>{_ID}(?:, {_ID}){{0,5}})\]\s*$")


def picked_seats(text: str) -> tuple[str, list[str]] | None:
    """Return the event's id and the seats' ids that a message from the seat map carries."""
    match = _PICK.search(text)
    return (match["event"], match["seats"].split(", ")) if match else None


def without_pick(text: str) -> str:
    """Return the words of a message without the ids that the seat map has added."""
    return _PICK.sub("", text)
