"""The inbox finds a word for every tool and every risk."""

import pytest
from django.utils.translation import override

from approvals.wording import action_words, spoken
from tools import registry, words
from tools.spec import Risk


@pytest.mark.parametrize("name", sorted(spec.name for spec in registry.all_tools()))
def test_tool_has_a_name_in_words(name: str) -> None:
    with override("en"):
        assert action_words(name) in words.TOOLS
    with override("pt-br"):
        assert action_words(name) not in words.TOOLS


@pytest.mark.parametrize("risk", Risk)
def test_risk_has_words(risk: Risk) -> None:
    with override("en"):
        assert spoken(risk) in words.RISKS
    with override("pt-br"):
        assert spoken(risk) not in words.RISKS
