"""Results that are too long: kept whole, cut where something ends, read on by range."""

import json
from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import DatabaseError, transaction
from hypothesis import given
from hypothesis import strategies as st

from boxoffice.tenancy.models import Tier
from tests.support.cast import Cast, arena, teatro
from tests.support.dispatching import call_run
from tests.support.scripted_model import Reply, ScriptedModel, last_tool_results, tool_names
from tests.support.worker import Worker, handed_out, model, worker
from tools import effects, outputs, registry
from tools.models import StoredOutput, ToolCall
from tools.outputs import MOST_BYTES, _bytes, _fit, _size
from tools.permissions import Caller
from tools.spec import Risk, ToolContext, ToolInput, ToolOutput, ToolSpec

__all__ = ["arena", "handed_out", "model", "teatro", "worker"]


class Nothing(ToolInput):
    """No arguments."""


class Report(ToolOutput):
    """Of any size."""

    rows: list[dict[str, str]] = []
    text: str = ""
    total: int = 0


HOLDER: dict[str, Report] = {}


def report(context: ToolContext, arguments: Nothing) -> Report:
    return HOLDER["report"]


@pytest.fixture
def long(arena: Cast, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A tool that gives whatever the test wants."""
    spec = ToolSpec(
        name="report",
        description="One. Two. Three.",
        input_model=Nothing,
        output_model=Report,
        run=report,
        risk=Risk.READ,
    )
    monkeypatch.setitem(registry._tools, "report", spec)
    with arena.scope():
        Tier.objects.filter(slug="pro").update(tools=["report"])
    yield


def rows(count: int) -> list[dict[str, str]]:
    return [{"id": f"row-{number}", "words": f"é a linha {number}"} for number in range(count)]


def called(
    cast: Cast, name: str, tool: str, arguments: Any, conversation: UUID | None = None
) -> ToolCall:
    caller = Caller(
        tenant_id=cast.tenant.pk,
        user_id=cast.user(name).pk,
        time_zone="America/Sao_Paulo",
        language="pt-br",
    )
    (call,) = effects.calls_propose(
        caller=caller,
        proposals=[effects.Proposal(call_id="c", tool=tool, arguments=arguments)],
        origin="test",
        run_id=uuid4(),
        conversation_id=conversation or uuid4(),
        key_prefix=str(uuid4()),
    )
    return call_run(call_id=call.pk, caller=caller).call


def read(cast: Cast, call: ToolCall, name: str = "ana", **asked: Any) -> Any:
    arguments = {"id": str(StoredOutput.objects.get().pk), **asked}
    found = called(cast, name, "read_output", arguments, call.conversation_ref)
    return effects.outcome_data(found)


def test_a_result_that_fits_is_left_alone(arena: Cast, long: None) -> None:
    HOLDER["report"] = Report(rows=rows(500), total=500)
    with arena.scope():
        call = called(arena, "ana", "report", {})
        assert call.result == HOLDER["report"].model_dump(mode="json")
        assert not StoredOutput.objects.exists()


def test_a_long_list_is_cut_after_an_element_and_kept_whole(arena: Cast, long: None) -> None:
    HOLDER["report"] = Report(rows=rows(5000), total=5000)
    with arena.scope():
        call = called(arena, "ana", "report", {})
        whole = StoredOutput.objects.get(call=call)
        assert json.loads(whole.text) == HOLDER["report"].model_dump(mode="json")
        shown = effects.outcome_data(call)
        size = len(json.dumps(shown, ensure_ascii=False).encode())
        assert 40_000 < size <= 50_000  # 25,000 tokens of at least two bytes
        assert shown["total"] == 5000
        assert shown["rows"] == rows(5000)[: len(shown["rows"])]
        (place,) = shown["cut"]["places"]
        assert place == {
            "at": "rows",
            "unit": "elements",
            "shown": len(shown["rows"]),
            "total": 5000,
        }
        assert len(shown["rows"]) > 500
        assert shown["cut"]["output_id"] == str(whole.pk)
        assert shown["cut"]["total_bytes"] == len(whole.text.encode())


def test_a_long_text_is_cut_after_a_line(arena: Cast, long: None) -> None:
    text = "\n".join(f"linha {number}: é assim" for number in range(20_000))
    HOLDER["report"] = Report(text=text, rows=rows(3))
    with arena.scope():
        shown = effects.outcome_data(called(arena, "ana", "report", {}))
    assert shown["rows"] == rows(3)
    assert text.startswith(shown["text"] + "\n")
    assert MOST_BYTES * 0.8 < _size(shown) <= MOST_BYTES


def test_all_of_it_can_be_read_by_lines_and_by_bytes(arena: Cast, long: None) -> None:
    HOLDER["report"] = Report(rows=rows(3000))
    with arena.scope():
        call = called(arena, "ana", "report", {})
        whole = StoredOutput.objects.get()
        for unit, total, glue in (
            ("lines", whole.total_lines, "\n"),
            ("bytes", whole.total_bytes, ""),
        ):
            parts, first = [], 1
            while first <= total:
                piece = read(arena, call, **{unit: {"first": first, "last": total}})
                assert _size(piece) < MOST_BYTES
                assert "cut" not in piece
                assert piece["last"] >= first
                parts.append(piece["text"])
                first = piece["last"] + 1
            assert len(parts) > 3
            assert glue.join(parts) == whole.text


def test_a_range_ends_where_a_character_does(arena: Cast, long: None) -> None:
    HOLDER["report"] = Report(text="é" * 60_000)
    with arena.scope():
        call = called(arena, "ana", "report", {})
        whole = StoredOutput.objects.get().text
        at = len(whole[: whole.index("é")].encode()) + 1
        assert read(arena, call, bytes={"first": at, "last": at})["text"] == "é"
        assert read(arena, call, bytes={"first": at + 1, "last": at + 2})["text"] == "é"
        line = read(arena, call, lines={"first": 3, "last": 3})  # one line, far too long
        assert line["text"].startswith(' "text": "éé')
        assert len(line["text"].encode()) <= 20_000


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({}, "invalid_arguments"),
        ({"lines": {"first": 1, "last": 2}, "bytes": {"first": 1, "last": 2}}, "invalid_arguments"),
        ({"lines": {"first": 2, "last": 1}}, "invalid_arguments"),
        ({"lines": {"first": 0, "last": 1}}, "invalid_arguments"),
        ({"lines": {"first": 999_999, "last": 1_000_000}}, "invalid_input"),
    ],
)
def test_a_range_that_cannot_be_is_an_error(arena: Cast, long: None, asked: Any, code: str) -> None:
    HOLDER["report"] = Report(rows=rows(5000))
    with arena.scope():
        call = called(arena, "ana", "report", {})
        assert read(arena, call, **asked)["error"]["code"] == code


def test_another_conversation_and_another_tenant_find_nothing(
    arena: Cast, teatro: Cast, long: None
) -> None:
    HOLDER["report"] = Report(rows=rows(5000))
    with arena.scope():
        call = called(arena, "ana", "report", {})
        output = StoredOutput.objects.get()
        arguments = {"id": str(output.pk), "lines": {"first": 1, "last": 2}}
        elsewhere = called(arena, "ana", "read_output", arguments)
        absent = called(arena, "ana", "read_output", arguments | {"id": str(uuid4())})
    with teatro.scope():
        there = called(teatro, "teo", "read_output", arguments, call.conversation_ref)
    assert {found.error["code"] for found in (elsewhere, absent, there)} == {"output_not_found"}
    assert elsewhere.error == absent.error == there.error


def test_what_is_stored_stays_as_it_is(arena: Cast, long: None) -> None:
    HOLDER["report"] = Report(rows=rows(5000))
    with arena.scope():
        called(arena, "ana", "report", {})
        for change in (
            lambda: StoredOutput.objects.update(text="x"),
            lambda: StoredOutput.objects.all().delete(),
        ):
            with pytest.raises(DatabaseError), transaction.atomic():
                change()


def test_the_model_sees_the_cut_form_and_can_read_on(
    arena: Cast, worker: Worker, model: ScriptedModel, long: None
) -> None:
    HOLDER["report"] = Report(rows=rows(5000))
    model.script([Reply.tools(("report", {})), Reply.text("É longo.")])
    run = arena.post("ana", "relatório")
    worker.work(run)
    assert tool_names(model.requests[0]) == ["report"]
    assert tool_names(model.requests[1]) == ["read_output", "report"]
    (block,) = last_tool_results(model.requests[1])
    assert len(block["content"].encode()) < MOST_BYTES * 1.1
    with arena.scope():
        output_id = str(StoredOutput.objects.get().pk)
    assert output_id in block["content"]

    asked = {"id": output_id, "lines": {"first": 19_990, "last": 20_003}}
    model.reset()
    model.script([Reply.tools(("read_output", asked)), Reply.text("Pronto.")])
    conversation = arena.run(run.pk).conversation
    worker.work(arena.post("ana", "e o fim?", conversation))
    assert tool_names(model.requests[0]) == ["read_output", "report"]
    (block,) = last_tool_results(model.requests[1])
    assert "row-4999" in block["content"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=200),
    lambda inner: (
        st.lists(inner, max_size=30) | st.dictionaries(st.text(max_size=20), inner, max_size=30)
    ),
    max_leaves=60,
)


def is_part(kept: Any, value: Any) -> bool:
    """Whether it is the beginning of a text or a list, or some members of an object."""
    if isinstance(kept, str):
        return isinstance(value, str) and value.startswith(kept)
    if isinstance(kept, list):
        return len(kept) <= len(value) and all(map(is_part, kept, value))
    if isinstance(kept, dict):
        return all(key in value and is_part(kept[key], value[key]) for key in kept)
    return bool(kept == value)


@given(value=st.dictionaries(st.text(max_size=20), JSON, max_size=20), room=st.integers(50, 3000))
def test_whatever_is_cut_fits_and_is_a_part_of_it(value: dict[str, Any], room: int) -> None:
    places: list[dict[str, Any]] = []
    kept = _fit(value, room, "", places)
    assert _size(kept) <= room
    assert (kept == value) == (not places)
    assert is_part(kept, value)


@pytest.mark.parametrize("most", [3, 4, 5, 8])
@given(text=st.text(st.sampled_from("aé€😀\n"), min_size=1, max_size=7))
def test_any_range_of_bytes_gives_the_whole_characters_that_begin_in_it(
    text: str, most: int
) -> None:
    begins = [len(text[:index].encode()) for index in range(len(text))]
    total = len(text.encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(outputs, "MOST_READ_BYTES", most)
        for first in range(1, total + 1):
            for last in range(first, total + 1):
                shown, end = _bytes(text, first, last)
                reach = min(last, first - 1 + most)
                assert shown == "".join(
                    letter
                    for letter, begin in zip(text, begins, strict=True)
                    if first - 1 <= begin < reach
                )
                assert reach <= end <= total
                # Whoever reads on from there misses nothing.
                assert end == total or end in begins
