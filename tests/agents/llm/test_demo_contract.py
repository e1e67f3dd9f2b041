"""The calls of the demo model fit the catalogue's own schemas: it proposes nothing invalid."""

import json
from typing import Any

import pytest

from tests.support.demo_stage import TOOLS, BoxOffice, Stage
from tools import registry


class StrictOffice(BoxOffice):
    """Reads every call as the product does, before it answers."""

    def run(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        spec = registry.find(tool)
        assert spec is not None
        spec.input_model.model_validate_json(json.dumps(arguments), strict=True)
        return super().run(tool, arguments)


@pytest.fixture
def stage() -> Stage:
    specs = [registry.find(name) for name in TOOLS]
    schemas = {spec.name: spec.input_schema() for spec in specs if spec is not None}
    assert set(schemas) == set(TOOLS)
    return Stage(StrictOffice(), schemas=schemas)


@pytest.mark.parametrize(
    "messages",
    [
        ("encontre dois assentos abaixo de R$ 300 para sábado e reserve-os", "pode comprar",
         "qual o status do meu pedido?", "quero o reembolso porque não posso ir"),
        ("find a seat under R$ 149.90 this weekend in São Paulo", "option 1", "release it"),
        ("quais shows de jazz tem em dezembro?", "3 ingressos", "a segunda opção", "libere"),
        ("dois lugares separados para Rock na Praça até R$ 400 no total", "reserve"),
        ("mande um e-mail para ana@example.com assunto Oi dizendo que chego às 20h",),
        ("mande um e-mail para ana@example.com", "x" * 3_000),
        ("abra um chamado sobre " + "a cadeira muito quebrada " * 60,),
        ("quero falar com um atendente",),
        ("reserve 40 lugares para sábado", "6 lugares"),
        ("eventos " + "muitopalavrao" * 40,),
    ],
)  # fmt: skip
def test_every_call_fits_the_tools_schema(stage: Stage, messages: tuple[str, ...]) -> None:
    for text in messages:
        assert stage.say(text)
    assert stage.office.calls
