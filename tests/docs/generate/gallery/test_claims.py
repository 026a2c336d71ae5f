"""What the pages say in words, beside their numbers."""

from __future__ import annotations

import pytest

from docs.generate.gallery import (
    broker_side,
    consumer_bootstrap,
    mutation_burst,
    retry_storm,
    topic_interference,
    topic_split,
)
from docs.generate.gallery.drawing import picture
from docs.generate.gallery.traffic import MB


def test_a_client_that_comes_back_when_the_rate_told_it_to_is_refused_again() -> None:
    assert mutation_burst.first_admitted_ms("kip599_rate") == 100_000
    for name in ("kip599_token_bucket", "kip599_rate_burst_spread", "broker_controller_mutation"):
        assert mutation_burst.first_admitted_ms(name) == 12_000


def test_shares_add_up_and_preferring_a_partition_uses_one_brokers_only() -> None:
    shares = [topic_split.share("8M", 8, led) for led in topic_split.LEADERS.values()]
    assert sum(shares) == 8 * MB
    assert topic_split.written_per_second(8, broker_id=1) < 3.5 * MB


def test_only_the_topic_above_its_threshold_is_dropped_from_and_still_after_the_overload() -> None:
    facts = broker_side.page().facts
    assert facts["dropped"]["a"] > facts["dropped_late"] > 0
    assert (facts["dropped"]["b"], facts["dropped"]["c"]) == (0, 0)
    assert facts["last_refused_s"] > facts["overload"][1]


def test_the_steady_producer_waits_under_the_topics_quota_only() -> None:
    waited = {
        policy: [
            (request.at_ms - topic_interference.T) // 1000
            for request, decision in topic_interference.replayed(policy)
            if request.client_id == "steady" and decision.delay_ms
        ]
        for policy in topic_interference.POLICIES
    }
    assert waited["kip13"] == []
    assert max(waited["kip13_topic"]) >= topic_interference.NOISY_UNTIL_S


def test_under_a_topics_quota_the_bootstrap_changes_what_others_get() -> None:
    assert consumer_bootstrap.decisions_changed("kip13_topic")[0] > 0


def test_without_backing_off_more_is_sent_and_parking_slows_that_client_down() -> None:
    config = {"retries": retry_storm.FOR_EVER}
    storms = [
        sum(retry_storm.storm(retry_storm.refusing(name, {**config, **more})))
        for name, more in (
            ("kip13_immediate_error", {"retry.backoff.ms": 10}),
            ("kip13_immediate_error", {"retry.backoff.ms": 100}),
            ("kip13_delay_then_error", {"quota.delay.ms": 1000}),
        )
    ]
    assert storms == sorted(storms, reverse=True)
    assert retry_storm.delayed()["refused"] == 0


def test_a_picture_without_its_label_in_quotes_is_still_one_attribute() -> None:
    svg = picture("quotes", 'a "label" & <more>', lambda axes: None)
    assert 'aria-label="a &#34;label&#34; &amp; &lt;more&gt;"' in svg
    assert picture("quotes", 'a "label" & <more>', lambda axes: None) == svg


@pytest.mark.parametrize("name", ["a", "b"])
def test_every_colour_that_is_drawn_has_one_for_dark_pages(name: str) -> None:
    svg = picture(
        name, "label", lambda axes: axes[0].plot([0, 1], [0, 1], color="#0072b2") and None
    )
    assert '[style*="stroke: #0072b2"]{stroke:#56b4e9!important}' in svg
    assert "stroke: #0072b2" in svg.split("</style>")[-1]
