"""Rules as YAML: read back as written, and refused at the place of the fault."""

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from approvals.policies.document import MAX_RULES, RulesInvalid, rules_read
from approvals.policies.rules import MAX_REVIEWERS, Effect, Rule

GOOD = """\
# refunds
rules:
  - name: large refunds
    tools: [refund_order]
    tiers: [free, pro]
    when: |
      has(args.reason) &&
        args.reason != ''
    effect: approve
    reviewers: 2
  - name: no letters
    tools: send_email
    when: true
    effect: deny
    message: Only people write letters here.
"""


def problems_of(text: str) -> list[str]:
    with pytest.raises(RulesInvalid) as refused:
        rules_read(text)
    return [str(one) for one in refused.value.problems]


def test_rules_are_read() -> None:
    large, letters = (placed.rule for placed in rules_read(GOOD))
    assert large == Rule(
        name="large refunds",
        tools=("refund_order",),
        tiers=("free", "pro"),
        when="has(args.reason) &&\n  args.reason != ''",
        effect=Effect.APPROVE,
        reviewers=2,
    )
    assert (letters.tools, letters.when) == (("send_email",), "true")
    assert letters.message == "Only people write letters here."


def test_no_rules_are_rules_too() -> None:
    for text in ("", "rules: []", "# nothing", "[]"):
        assert rules_read(text) == []


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("[refund_order]", "[refund_order"), "5:10: Not valid YAML"),
        (("    effect: approve", "    effect: perhaps"), "9:13: large refunds: effect: One of"),
        (("reviewers: 2", "reviewers: 0"), "10:16: large refunds: reviewers: A number from 1"),
        (("reviewers: 2", "reviewers: 6"), "10:16: large refunds: reviewers: A number from 1"),
        (("reviewers: 2", "reviewers: 0000000010"), "10:16: large refunds: reviewers"),
        (("reviewers: 2", "reviewers: 00000000013"), "10:16: large refunds: reviewers"),
        (("reviewers: 2", f"reviewers: {'1' * 5_000}"), "10:16: large refunds: reviewers"),
        (("reviewers: 2", "reviewers: 1_0"), "10:16: large refunds: reviewers"),
        (("reviewers: 2", "reviewers: two"), "10:16: large refunds: reviewers"),
        (("reviewers: 2", "limit: 2"), "10:5: #1: There is no field “limit”"),
        (("effect: deny", "effect: allow"), "15:14: no letters: message: Only “deny”"),
        (("name: no letters", "name: large refunds"), "11:11: large refunds: name: Another rule"),
        (("    when: true\n", ""), "11:5: #2: “when” is missing"),
        (("when: true", "when: 5"), "13:11: no letters: when: A condition"),
        (("when: true", "when: 'args.x >'"), "13:20: no letters: when: Not valid CEL"),
        (("when: true", "when: args.x > > 1"), "13:20: no letters: when: Not valid CEL"),
        (("args.reason != ''", "args.reason != ="), "8:24: large refunds: when: Not valid CEL"),
        (("tools: send_email", "tools: []"), "12:12: no letters: tools: A list"),
        (("tools: send_email", "tools: [a, a]"), "12:12: no letters: tools: A list"),
        (("tools: send_email", "tools: 7"), "12:12: no letters: tools: Text is expected"),
        (("message: Only", "message: &x Only"), "15:14: Anchors"),
        (("  - name: no", "  - name: 7\n    name: no"), "12:5: #2: “name” is there twice"),
        (("rules:\n", "regras:\n"), "2:1: There is no field “regras”"),
    ],
)
def test_a_fault_is_told_at_its_place(change: tuple[str, str], expected: str) -> None:
    assert change[0] in GOOD
    found = problems_of(GOOD.replace(*change))
    assert found[0].startswith(expected), found


def test_all_faults_are_told_at_once() -> None:
    text = GOOD.replace("effect: approve", "effect: x").replace("when: true", "when: (")
    assert [one.split(":")[0] for one in problems_of(text)] == ["9", "13"]


@pytest.mark.parametrize(
    "text",
    [
        "rules: {a: 1}",
        "a" * 300_000,
        "[" * 5_000,
        "rules: [[]]",
        "rules:\n" + "  - {name: x, tools: [y], when: 'true', effect: deny}\n" * (MAX_RULES + 1),
        "rules: !!python/object/apply:os.system ['true']",
        "\x00",
        "a: &a [*a]",
    ],
)
def test_what_is_no_document_is_refused(text: str) -> None:
    assert problems_of(text)


words = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Zl", "Zp"]), max_size=40)
names = words.map(str.strip).filter(bool)
rules = st.builds(
    Rule,
    name=names,
    tools=st.lists(names, min_size=1, max_size=4, unique=True).map(tuple),
    tiers=st.lists(names, max_size=3, unique=True).map(tuple),
    when=st.sampled_from(["true", "false", "args.x == 'é: #'", "args.x >\n  1 && true", "1 < 2"]),
    effect=st.just(Effect.APPROVE),
    reviewers=st.integers(1, MAX_REVIEWERS),
) | st.builds(
    Rule,
    name=names,
    tools=st.just(("*",)),
    when=st.just("true"),
    effect=st.just(Effect.DENY),
    message=words.map(str.strip),
)


@given(st.lists(rules, max_size=5, unique_by=lambda rule: rule.name))
def test_what_is_written_is_read_back(made: list[Rule]) -> None:
    rows = [_row(rule) for rule in made]
    text = yaml.safe_dump({"rules": rows}, sort_keys=False, allow_unicode=True)
    assert [placed.rule for placed in rules_read(text)] == made


def _row(rule: Rule) -> dict[str, Any]:
    """Without what need not be written."""
    row = rule.as_data()
    unsaid: dict[str, Any] = {"tiers": [], "reviewers": 1, "message": ""}
    return {name: value for name, value in row.items() if unsaid.get(name) != value}
