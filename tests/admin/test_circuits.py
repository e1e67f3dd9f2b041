"""Which tools are given a rest: seen by those who hold the tenant."""

import asyncio
from typing import Any

from boxoffice.common import valkey
from tests.admin.conftest import console, page
from tests.support.cast import Cast
from tools.circuits import Circuit, key_of

PATH = "tools/toolcall/circuits/"


def test_an_open_circuit_is_seen_by_those_who_hold_the_tenant(
    arena: Cast, teatro: Cast, settings: Any
) -> None:
    settings.VALKEY_PATIENCE_SECONDS = 10.0
    valkey.forget_absence()
    for _ in range(5):
        asyncio.run(Circuit(key=key_of(arena.tenant.pk, "search_seats")).tell("failure"))
    asyncio.run(Circuit(key=key_of(teatro.tenant.pk, "hold_seats")).tell("failure"))
    ada, tina, root = (page(console(who), PATH).content.decode() for who in ("ada", "tina", "root"))
    for text, is_arena, is_teatro in ((ada, True, False), (tina, False, True), (root, True, True)):
        assert ("search_seats" in text) == is_arena
        assert ("hold_seats" in text) == is_teatro
    assert "em pausa, faltam" in ada
    assert "funciona" in tina
    assert "toolcall/circuits/" in page(console("ada"), "tools/toolcall/").content.decode()
    for who in ("ana", "rita"):
        assert page(console(who), PATH).status_code == 302


def test_without_valkey_the_page_says_so(arena: Cast, teatro: Cast, settings: Any) -> None:
    valkey.forget_absence()
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    assert "quem conta não responde" in page(console("ada"), PATH).content.decode()
    valkey.forget_absence()
