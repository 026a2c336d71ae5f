"""Thresholds of bytes in, and the one-minute rate that they are compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes

from docs.generate.gallery.drawing import BLUE, GREEN, INK, PURPLE, RED, bound_line, legend, picture
from docs.generate.gallery.page import Page, number
from docs.generate.gallery.traffic import T, produce
from spark_jobs.whatif.clients.replay import replay_as_logged
from spark_jobs.whatif.policies.broker_side.broker_side_v1 import (
    M1_ALPHA,
    TICK_INTERVAL_MS,
    BrokerSideV1,
    MeterName,
    OneMinuteRate,
    Ticks,
)
from spark_jobs.whatif.policies.broker_side.bytes_in_thresholds import (
    TOPIC_THRESHOLD,
    TOTAL_THRESHOLD,
)
from spark_jobs.whatif.policies.change import Change, ConfigChanged, TopicAdded
from spark_jobs.whatif.policies.kafka_config import PolicyConfigError

TOTAL = 100
EXPLICIT = {"a": 60, "b": 30}
MARKED = (60, 0, 0, 300)
"""Bytes in successive 5 s, and what the rate makes of them."""

CONFIG: Mapping[str, object] = {TOTAL_THRESHOLD: TOTAL, TOPIC_THRESHOLD: EXPLICIT}
# Topic: what it offers per second, from when until when (s).
OFFERED: Mapping[str, Sequence[tuple[int, int, float]]] = {
    "a": ((0, 60, 40.0), (60, 75, 1000.0), (75, 180, 50.0)),
    "b": ((0, 180, 25.0),),
    "c": ((0, 180, 8.0),),
}
SECONDS = 180
THRESHOLDS = {**EXPLICIT, "c": TOTAL - sum(EXPLICIT.values())}
_DRAWN = (("a", RED, None), ("b", BLUE, (6, 2)), ("c", GREEN, (1.5, 1.5)))


def example_policy(**explicit: int) -> BrokerSideV1:
    """Return the policy with the example's total, explicit thresholds, and topics a to d."""
    policy = BrokerSideV1.configured(
        {TOTAL_THRESHOLD: TOTAL, TOPIC_THRESHOLD: {**EXPLICIT, **explicit}}
    )
    for topic in "abcd":
        policy.observe(TopicAdded(T, 1, topic))
    return policy


def change_or_refusal(policy: BrokerSideV1, change: Change) -> str:
    """Return "accepted", or the rule that a refused change breaks."""
    try:
        policy.observe(change)
    except PolicyConfigError as error:
        return f"refused: {error.rule}"
    return "accepted"


def set_topic(topic: str, threshold: int | None) -> ConfigChanged:
    """Return the change of one topic's threshold; None: it has none of its own any more."""
    return ConfigChanged(T, {TOPIC_THRESHOLD: {topic: threshold}})


def rates_after(marked: Sequence[int]) -> list[float]:
    """Return the rate after each of the ticks that end the 5 s in which bytes were marked."""
    meter = OneMinuteRate(T, Ticks.FIXED_SCHEDULE)
    rates = []
    for i, amount in enumerate(marked):
        meter.mark(amount, T + i * TICK_INTERVAL_MS)
        rates.append(meter.rate(T + (i + 1) * TICK_INTERVAL_MS))
    return rates


def page() -> Page:
    """Return the page of thresholds and rates."""
    found = _replayed()
    refused = [at_s for at_s, one in enumerate(found) if any(one["refused"].values())]
    label = (
        "The one-minute rates rise and fall late: dropping begins some time after the overload, "
        "and goes on, topic a only, after it is over."
    )

    def draw(axes: list[Axes]) -> None:
        _draw(axes, found)

    return Page(
        name="broker-side-v1",
        title="Thresholds and the one-minute rate",
        document="Broker side quota (V1)",
        label=label,
        svg=picture("broker-side-v1", label, draw, heights_in=(2.0, 2.0)),
        facts={
            "total": TOTAL,
            "explicit": EXPLICIT,
            "changes": _changes(),
            "alpha": M1_ALPHA,
            "rates": list(zip(MARKED, rates_after(MARKED), strict=True)),
            "offered": {
                topic: ", ".join(
                    f"{number(rate)} B/s from {begin} s to {end} s" for begin, end, rate in spans
                )
                for topic, spans in OFFERED.items()
            },
            "overload": OFFERED["a"][1],
            "first_refused_s": refused[0],
            "last_refused_s": refused[-1],
            "dropped": {topic: sum(one["refused"][topic] for one in found) for topic in OFFERED},
            "dropped_late": sum(
                sum(one["refused"].values()) for one in found[OFFERED["a"][1][1] :]
            ),
        },
    )


def _changes() -> list[dict[str, Any]]:
    policy, steps = example_policy(), []
    changes: tuple[tuple[str, Change | None], ...] = (
        ("the beginning", None),
        ("c = 15", set_topic("c", 15)),
        ("a new topic e", TopicAdded(T, 1, "e")),
        ("c = 10", set_topic("c", 10)),
        ("total = 99", ConfigChanged(T, {TOTAL_THRESHOLD: TOTAL - 1})),
    )
    topics = "abcd"
    for title, change in changes:
        answer = "" if change is None else change_or_refusal(policy, change)
        topics += change.topic if isinstance(change, TopicAdded) else ""
        of = {topic: policy.thresholds.of(1, topic) if topic in topics else "" for topic in "abcde"}
        steps.append({"title": title, "answer": answer, **of})
    return steps


def _replayed() -> list[dict[str, Any]]:
    """Return for every second what was offered and refused by topic, and the rates."""
    policy = BrokerSideV1.configured(CONFIG)
    requests = []
    for at_s in range(SECONDS):
        topics = {
            topic: rate
            for topic, spans in OFFERED.items()
            for begin, end, rate in spans
            if begin <= at_s < end
        }
        requests.append(produce(T + 1000 * at_s, sum(topics.values()), "app", topics))
    found = []
    for request, decision in replay_as_logged(policy, requests):
        meters = {topic: policy.meter(1, MeterName.BYTES_IN, topic) for topic in (None, *OFFERED)}
        found.append(
            {
                "offered": request.amount,
                "refused": {one.topic: one.amount * bool(one.refusal) for one in decision.topics},
                "rates": {t: meter.rate(request.at_ms) for t, meter in meters.items() if meter},
            }
        )
    return found


def _draw(axes: list[Axes], found: Sequence[Mapping[str, Any]]) -> None:
    total, topics = axes
    times = range(SECONDS)
    edges = range(SECONDS + 1)
    offered = [one["offered"] for one in found]
    admitted = [one["offered"] - sum(one["refused"].values()) for one in found]
    total.stairs(offered, edges, baseline=admitted, fill=True, color=RED, alpha=0.3, linewidth=0,
                 label="dropped")  # fmt: skip
    total.stairs(offered, edges, baseline=None, color=PURPLE, linewidth=1.2, label="offered")
    total.plot(times, [one["rates"][None] for one in found], color=INK, linewidth=2,
               drawstyle="steps-post", label="one-minute rate")  # fmt: skip
    total.text(OFFERED["a"][1][1] + 1, 300, f"offered: up to {number(max(offered))}", va="top",
               fontsize=8.5)  # fmt: skip
    total.set_title("bytes per second into the broker", loc="left", fontsize=9)
    bound_line(total, TOTAL, f"total {TOTAL}")
    legend(total)
    total.set_ylim(0, 320)
    topics.set_ylim(0, 190)
    for topic, colour, dashes in _DRAWN:
        topics.plot(times, [one["rates"][topic] for one in found], color=colour, linewidth=2,
                    drawstyle="steps-post",
                    linestyle="-" if dashes is None else (0, dashes),
                    label=f"{topic}, threshold {THRESHOLDS[topic]}")  # fmt: skip
        topics.axhline(THRESHOLDS[topic], color=colour, linewidth=0.8)
    topics.set_title("one-minute rate of each topic", loc="left", fontsize=9)
    topics.set_xlabel("seconds")
    legend(topics, "upper left", columns=3)
    for each in axes:
        each.set_xlim(0, SECONDS)
