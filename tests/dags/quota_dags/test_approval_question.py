from __future__ import annotations

import html
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from quota_dags.approval_question import code, escaped, question_text
from spark_jobs.apply.changes.change_key import change_key
from spark_jobs.apply.changes.quota_alteration import QuotaAlteration
from spark_jobs.wording.visible_text import visible

WORD_JOINER = "\u2060"
MARKDOWN = MarkdownIt("commonmark").enable("table")
RAISE = {
    "change": "users/alice:producer_byte_rate",
    "quota_type": "producer_byte_rate",
    "before": 50_000.0,
    "after": 100_000.0,
    "current": 50_000.0,
    "throttle_time_ms_before": 40_000,
    "throttle_time_ms_after": 0,
    "backtest_trials": 4,
    "backtest_kept": 3,
    "reason": "Throttled for 40 s.",
}
REMOVAL = RAISE | {"change": "clients/etl:producer_byte_rate", "after": None}
HOSTILE = (
    "a|b `c` <b>d</b> ![e](http://f/g) **h** _i_ ~~j~~ {{ 1+1 }} k\\\n# l\u202e www.m.n o@p.q &lt;"
)


def asked(*proposals: dict[str, Any], is_dry_run: bool = True, **more: Any) -> str:
    return question_text(
        proposals,
        more.get("withdrawn", []),
        "east, 2026-11-20 UTC",
        "production",
        "broker-1:9092",
        "quota-audit rollback --execute",
        is_dry_run=is_dry_run,
    )


def cells(text: str) -> list[str]:
    """Return the cells of the table's last row, as a person reads them."""
    found = re.findall(r"<td[^>]*>(.*?)</td>", MARKDOWN.render(text))
    return [html.unescape(re.sub(r"<[^>]+>", "", cell)).replace("\u00a0", " ") for cell in found]


def test_a_proposal_is_a_row_with_its_values_its_backtest_and_why() -> None:
    assert cells(asked(RAISE)) == [
        "users/alice:producer_byte_rate",
        "50,000 B/s",
        "100,000 B/s (+100 %)",
        "40 s",
        "0 ms",
        "3 of 4",
        "Throttled for 40 s.",
    ]


@pytest.mark.parametrize(
    ("changed", "now", "proposed"),
    [
        ({"before": None}, "none of its own; gets 50,000 B/s", "100,000 B/s (new)"),
        ({"before": None, "current": None}, "none", "100,000 B/s (new)"),
        ({"after": None}, "50,000 B/s", "remove it"),
        (
            {"quota_type": "controller_mutation_rate", "before": 5.0, "after": 2.5},
            "5 partitions/s",
            "2.5 partitions/s (−50 %)",
        ),
    ],
    ids=["new", "new and unlimited", "removal", "fraction"],
)
def test_a_value_is_shown_with_every_digit(
    changed: dict[str, Any], now: str, proposed: str
) -> None:
    assert cells(asked(RAISE | changed))[1:3] == [now, proposed]


def test_what_was_not_replayed_has_no_figures() -> None:
    unknown = {"throttle_time_ms_before": None, "throttle_time_ms_after": None}
    assert cells(asked(RAISE | unknown | {"backtest_trials": 0}))[3:6] == ["–", "–", "–"]


def test_a_dry_run_says_so_and_only_a_real_one_says_how_it_is_taken_back() -> None:
    dry, real = asked(RAISE), asked(RAISE, is_dry_run=False)
    assert "**Dry run**" in dry
    assert "rollback" not in dry
    assert "**Dry run**" not in real
    assert "To take it back: `quota-audit rollback --execute`" in real


def test_a_removal_that_may_not_be_chosen_is_named() -> None:
    assert "Not offered" not in asked(RAISE)
    text = asked(RAISE, withdrawn=[REMOVAL])
    assert "Not offered, because removing values is not allowed here: `clients/etl:p" in text
    assert len(cells(text)) == 7


def test_a_hostile_name_stays_in_its_cell_and_makes_no_markup() -> None:
    named = QuotaAlteration("producer_byte_rate", HOSTILE, None, None, 1.0)
    text = asked(RAISE | {"reason": HOSTILE, "change": change_key(named)})
    table = MARKDOWN.render(text).partition("<tbody>")[2].partition("</tbody>")[0]
    assert set(re.findall(r"</?(\w+)", table)) == {"tr", "td", "code", "strong"}
    shown = cells(text)
    assert len(shown) == 7
    assert shown[0] == change_key(named)
    assert shown[6].replace(WORD_JOINER, "") == visible(HOSTILE)


@given(st.text())
def test_escaped_text_reads_as_it_was_and_is_nothing_but_text(text: str) -> None:
    shown = escaped(text)
    assert "|" not in shown
    assert "{" not in shown
    # Not at a line's start: there a text may be a heading or a list whatever is escaped.
    (inline,) = [t for t in MARKDOWN.parse(f"x{shown}x") if t.type == "inline"]
    assert inline.children is not None
    assert {child.type for child in inline.children} <= {"text", "text_special"}
    read = "".join(child.content for child in inline.children)
    assert read.replace(WORD_JOINER, "") == f"x{visible(text)}x".replace(WORD_JOINER, "")


@pytest.mark.parametrize(
    "text", ["https://evil.example/x", "WWW.evil.example", "http://e", "mail me@evil.example"]
)
def test_escaped_text_holds_nothing_that_a_page_makes_a_link_of(text: str) -> None:
    # GitHub's extended autolinks, as micromark and mdast find them in plain text.
    linked = re.compile(r"(?i)(https?://|www\.)\S|[\w.+-]@[\w-]+\.[\w-]")
    assert linked.search(text)
    assert not linked.search(html.unescape(escaped(text)))


@given(st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=1))
def test_a_code_span_holds_any_line(text: str) -> None:
    (inline,) = [t for t in MARKDOWN.parse(f"x {code(text)} x") if t.type == "inline"]
    assert inline.children is not None
    assert [c.content for c in inline.children if c.type == "code_inline"] == [text]


def test_a_code_span_is_one_line() -> None:
    assert code("a\n# b") == "`a # b`"
