from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from spark_jobs.publish.page.whatif_page import (
    WhatifPolicy,
    configuration_text,
    render_whatif,
)
from spark_jobs.publish.publish_report import publish_whatif
from spark_jobs.settings import ReportSettings
from tests.builders.day_builder import HOSTILE
from tests.builders.page_elements import PageElements, outside_references
from tests.builders.tables_builder import DAY, Row, scope_in
from tests.spark_jobs.publish.page.whatif_builder import (
    POLICIES,
    WhatifFacts,
    delayed,
    facts,
    quiet,
    refused,
    three_policies,
)


def busy_rows() -> list[Row]:
    """Return clients of two kinds and both modes, some of which are harmed."""
    return [
        row | {"mode": mode}
        for mode in ("as_logged", "closed_loop")
        for row in (
            *three_policies(),
            *three_policies(client_id=None, broker_id=2),
            delayed(user="carol", kind="mutation", harm_time_ms=900, harmed_requests=2),
        )
    ]


@pytest.fixture(scope="module", params=["busy", "quiet", "empty"])
def page(request: pytest.FixtureRequest) -> str:
    rows = {"busy": busy_rows(), "quiet": [quiet()], "empty": []}[request.param]
    return render_whatif(rows, *facts())


def text_of(rows: list[Row], about: WhatifFacts | None = None, **settings: int) -> str:
    return PageElements(render_whatif(rows, *(about or facts()), ReportSettings(**settings))).text


def test_the_page_refers_to_nothing_outside_itself(page: str) -> None:
    assert outside_references(page) == []


def test_the_tags_of_the_page_are_balanced_and_links_lead_somewhere(page: str) -> None:
    elements = PageElements(page)
    assert (elements.open, elements.mismatched) == ([], [])
    ids = elements.attributes("id")
    assert len(ids) == len(set(ids))
    links = {link[1:] for link in elements.attributes("href") if link.startswith("#")}
    assert links <= set(ids)


def test_every_table_has_a_caption_and_every_picture_says_what_it_shows(page: str) -> None:
    tags = PageElements(page).tags
    tables = [i for i, (tag, _) in enumerate(tags) if tag == "table"]
    assert [tags[i + 1][0] for i in tables] == ["caption"] * len(tables)
    for tag, attributes in tags:
        if tag == "svg":
            assert attributes.get("aria-label") or attributes.get("aria-hidden") == "true"


def test_what_scrolls_can_be_reached_by_keyboard_and_has_a_name(page: str) -> None:
    for _, attributes in PageElements(page).tags:
        if attributes.get("class") == "scroll":
            assert attributes["tabindex"] == "0"
            assert attributes["aria-label"]


def test_the_heading_names_cluster_day_and_policies_with_their_configuration() -> None:
    text = text_of([quiet()], facts(cluster="prod"))
    assert "prod, 2026-11-10" in text
    assert "on this day (UTC) would have got under 3 policies, replayed as logged ." in text
    for part in POLICIES:
        assert f"{part.label} {part.policy} {part.title}" in text
    assert 'quota.producer.default = "1M"' in text
    assert "nothing; dynamic quotas are those of the log" in text


@pytest.mark.parametrize(
    ("modes", "said", "unsaid"),
    [
        (["as_logged"], ["Every request arrives when the log says"], "Each client waits"),
        (["closed_loop"], ["Each client waits and tries again"], "Every request arrives"),
        (
            ["as_logged", "closed_loop"],
            ["Every request arrives", "Each client waits", "replayed in both ways"],
            "No policy decided",
        ),
    ],
)
def test_the_page_says_how_clients_were_played(
    modes: list[str], said: list[str], unsaid: str
) -> None:
    text = text_of([delayed(mode=mode) for mode in modes])
    for part in said:
        assert part in text
    assert unsaid not in text


def test_every_table_says_its_mode() -> None:
    page = render_whatif(busy_rows(), *facts())
    labels = [
        a["aria-label"] or "" for _, a in PageElements(page).tags if a.get("role") == "region"
    ]
    headings = re.findall(r"<h3>([^<]*)</h3>", page)
    assert len([label for label in labels if "as logged" in label or "closed loop" in label]) == 6
    assert headings.count("Produce, as logged") == headings.count("Produce, closed loop") == 1


def test_figures_are_the_sums_of_the_rows_to_the_last_digit() -> None:
    rows = [
        delayed("now", 1234, asked=123_456_789.0, admitted=123_456_789.0, delayed=7_654_321.0),
        delayed("now", 4321, asked=1.0, admitted=1.0, delayed=1.0, broker_id=2),
        refused("lossy", asked=123_456_789.0, refused=98_765_432.0, lost=8_765_432.0),
    ]
    page = render_whatif(rows, *facts())
    for column in ("admitted", "delayed"):
        total = sum(row[column] for row in rows if row["label"] == "now")
        assert f'title="{total:,.0f} bytes"' in page
    for exact in ("98,765,432 bytes", "8,765,432 bytes", "5,555 ms"):
        assert f'title="{exact}"' in page


def test_the_same_rows_give_the_same_page_in_whatever_order() -> None:
    rows = busy_rows()
    first = render_whatif(rows, *facts())
    random.Random(0).shuffle(rows)
    assert render_whatif(rows, *facts()) == first


def test_names_of_strangers_are_text_and_their_hidden_characters_are_spelled_out() -> None:
    rows = [
        delayed(HOSTILE, user=HOSTILE, client_id=HOSTILE, harm_time_ms=9, harmed_requests=1),
        refused("lossy", user=HOSTILE),
    ]
    policy = WhatifPolicy(HOSTILE, HOSTILE, HOSTILE, f"{HOSTILE}\nkey = 1")
    page = render_whatif(rows, *facts(policy, POLICIES[2]))
    elements = PageElements(page)
    assert outside_references(page) == []
    assert "\u202e" not in page
    shown = HOSTILE.replace("\u202e", "\\u202e")
    assert f"user '{shown}', client-id '{shown}'" in elements.text
    # Heading, policy, its title and configuration, answer, harm, picture and client's table.
    assert elements.text.count(shown) >= 10
    assert any(shown in label for label in elements.attributes("aria-label"))


def test_long_names_are_cut() -> None:
    page = render_whatif([delayed("l" * 500, user="u" * 500, client_id="c" * 500)], *facts())
    assert re.findall(r"([luc])\1{120}", page) == []
    assert "u" * 40 in page


def test_a_missing_client_id_is_said() -> None:
    assert "user 'alice', without a client-id" in text_of([quiet(client_id=None)])


def test_what_is_0_has_no_column() -> None:
    page = render_whatif([quiet(), delayed()], *facts())
    heads = re.findall(r'<th scope="col">([^<]*)</th>', page)
    assert {"Delayed", "Throttle\u00a0s"} <= set(heads)
    assert not {"Lost", "Waiting", "Harm\u00a0s", "No\u00a0size"} & set(heads)


def test_what_still_waits_has_a_column() -> None:
    rows = [delayed("now", mode="closed_loop", waiting=64_000.0)]
    page = render_whatif(rows, *facts())
    assert '<th scope="col">Waiting</th>' in page
    assert page.count('title="64,000 bytes">64 kB') == 2


def test_clients_beyond_the_limit_are_counted() -> None:
    rows = [quiet(client_id=f"c{n:02}", asked=float(n)) for n in range(30)]
    text = text_of(rows, table_rows_max=20)
    assert "30 clients, counted on each broker" in text
    assert "The next 5" in text
    assert "The first 20 of 30 are shown; all are in the table whatif." in text
    assert "client-id 'c10'" in text
    assert "client-id 'c09'" not in text


def test_at_most_ten_clients_are_drawn() -> None:
    rows = [delayed(client_id=f"c{n}") for n in range(12)]
    assert render_whatif(rows, *facts()).count("<figure>") == 10
    assert "The first 10 of 12 are shown" in text_of(rows)
    assert "12 clients are throttled; no pictures were asked for." in text_of(rows, pictures_max=0)


def test_a_day_on_which_nobody_is_throttled_says_so() -> None:
    text = text_of([quiet()])
    for sentence in (
        "Nothing is lost, and no client pays for others",
        "Nothing to draw: no policy throttles anybody.",
        "As logged: nobody. No client that stayed inside its share was delayed or refused.",
    ):
        assert sentence in text


def test_a_page_without_rows_says_that_no_policy_decided() -> None:
    text = text_of([])
    assert "No policy decided on anything" in text
    assert "no request of a kind that these policies decide on" in text
    assert "this policy decides on" in text_of([], facts(POLICIES[0]))


def test_every_figure_and_term_is_explained() -> None:
    text = text_of([quiet()])
    explained = text[text.index("What the figures mean Amounts") :]
    for term in ("Share", "Harm s", "Lost", "Waiting", "Worst 1 s", "Taken back", "No size"):
        assert f" {term} " in explained


def test_the_page_is_where_the_days_report_is(tmp_path: Path) -> None:
    scope = scope_in(tmp_path)
    path = publish_whatif(scope, busy_rows(), POLICIES)
    assert path == tmp_path / "reports" / "cluster=default" / f"date={DAY}" / "whatif.html"
    assert path.read_text(encoding="utf-8") == render_whatif(busy_rows(), *facts())


def test_a_configuration_is_shown_as_it_was_written() -> None:
    config = {
        "quota.producer.override": "a:16K",
        "retries": 2,
        "bytes.in.per.sec.threshold": {"orders": 40000},
        "quotas": [{"user": "é", "producer_byte_rate": 5}],
        "brokers": [1, 2],
    }
    assert configuration_text(config, [{"topic": "orders", "broker-id": 1}]) == (
        'quota.producer.override = "a:16K"\n'
        "retries = 2\n"
        "bytes.in.per.sec.threshold:\n"
        "  orders = 40000\n"
        "quotas:\n"
        '  user = "é", producer_byte_rate = 5\n'
        "brokers = [1, 2]\n"
        "topics:\n"
        '  topic = "orders", broker-id = 1'
    )
    assert configuration_text({}) is None
