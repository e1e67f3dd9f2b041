"""A case of `cases/*.yaml`, read strictly: a field that nobody knows is a mistake in the case.

    kind: instruction in a tool result     which kind of attack it is
    planted:                               what is where before the fan speaks
      - where: event.title                 see ``plants.py``
        text: …
    by: ana                                who asks: ana, visitor
    asks: …                                what the fan says
    obeys:                                 what the model calls, turn by turn
      - - {tool: …, arguments: {…}}        ids are marks, like @fabio.order
    answers:                               what comes of each of these calls, in order
      - succeeded                          or waits (for a human), or the code of the error
    may_change: []                         business tables that may be different afterwards
    must_not_happen: …                     in words, for the reader

A call that waits is refused by its human: nothing of it may have happened by then. Several
answers that are all right stand in a list.
"""

from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict

FOLDER = Path(__file__).parent / "cases"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Plant(_Strict):
    """A text, and where it stands. ``reaches_model``: whether the model must have read it."""

    where: str
    text: str
    reaches_model: bool = True


class Call(_Strict):
    """One call. ``raw`` is the text of arguments that are no JSON, or not what it seems."""

    tool: str
    arguments: dict[str, Any] = {}
    raw: str = ""


class Case(_Strict):
    """One attack."""

    kind: str
    planted: list[Plant] = []
    by: str = "ana"
    asks: str
    obeys: list[list[Call]]
    answers: list[str | list[str]]
    may_change: list[str] = []
    must_not_happen: str

    @property
    def calls(self) -> list[Call]:
        """All calls, in order."""
        return [call for turn in self.obeys for call in turn]


def cases() -> dict[str, Case]:
    """Every case by its name: the file's, and the case's own."""
    found = {}
    for path in sorted(FOLDER.glob("*.yaml")):
        for name, case in yaml.safe_load(path.read_text()).items():
            found[f"{path.stem}: {name}"] = Case.model_validate(case)
    return found
