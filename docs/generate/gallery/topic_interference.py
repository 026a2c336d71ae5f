"""A topic's quota throttles everyone on the topic for what one client does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from matplotlib.axes import Axes

from docs.generate.gallery.drawing import BLUE, GREEN, RED, SOFT, legend, picture
from docs.generate.gallery.page import Page
from docs.generate.gallery.traffic import MB, T, produce
from spark_jobs.whatif.clients.replay import replay_as_logged
from spark_jobs.whatif.policies.catalogue import policy_class
from spark_jobs.whatif.policies.decision import Decision
from spark_jobs.whatif.policies.kip13.kip13_topic import OTHER_TOPICS
from spark_jobs.whatif.policies.request import PolicyRequest

QUOTA_MB = 4
STEADY_MB, NOISY_MB = 1, 8
SECONDS, NOISY_FROM_S, NOISY_UNTIL_S = 50, 10, 22
POLICIES: Mapping[str, str] = {"kip13": "client-id", "kip13_topic": "topic"}


def traffic() -> Iterator[PolicyRequest]:
    """Yield two producers' requests to one topic: one steady, the other at times noisy."""
    for at_ms in range(T, T + 1000 * SECONDS, 500):
        if T + 1000 * NOISY_FROM_S <= at_ms < T + 1000 * NOISY_UNTIL_S:
            yield produce(at_ms, NOISY_MB * MB / 2, "noisy")
        yield produce(at_ms, STEADY_MB * MB / 2, "steady")


def replayed(policy: str) -> list[tuple[PolicyRequest, Decision]]:
    """Return each request of the traffic, sent at its own time, with its decision."""
    config = {"quota.producer.default": f"{QUOTA_MB}M"}
    return list(replay_as_logged(policy_class(policy).configured(config), traffic()))


def page() -> Page:
    """Return the page of interference."""
    found = {policy: replayed(policy) for policy in POLICIES}
    label = (
        "While a noisy producer exceeds the topic's quota, and until its bytes have left the "
        "window, the steady producer on the same topic waits too; with quotas by client-id never."
    )

    def draw(axes: list[Axes]) -> None:
        _draw(axes[0], found)

    return Page(
        name="topic-interference",
        title="Topic quotas and interference",
        document="KIP-13, Rejected Alternatives, Topic Based Quotas",
        label=label,
        svg=picture("topic-interference", label, draw),
        facts={
            "quota": QUOTA_MB,
            "steady": STEADY_MB,
            "noisy": NOISY_MB,
            "noisy_from_s": NOISY_FROM_S,
            "noisy_until_s": NOISY_UNTIL_S,
            "seconds": SECONDS,
            "rows": [_row(policy, found[policy]) for policy in POLICIES],
            "others": [other_topic(setting) for setting in OTHER_TOPICS],
        },
    )


def other_topic(setting: str) -> dict[str, Any]:
    """Return the delay (ms) of a request to two topics, one violated, and which was admitted."""
    policy = policy_class("kip13_topic").configured(
        {
            "quota.producer.default": f"{QUOTA_MB}M",
            "quota.other.topics": setting,
        }
    )
    policy.decide(produce(T, 60 * MB, "noisy", {"orders": 60 * MB}))
    both = produce(T + 1000, 2 * MB, "steady", {"orders": MB, "audit": MB})
    decision = policy.decide(both)
    return {
        "setting": setting,
        "delay_ms": decision.delay_ms,
        **{topic.topic: topic.refusal is None for topic in decision.topics},
    }


def _row(policy: str, found: list[tuple[PolicyRequest, Decision]]) -> dict[str, Any]:
    row: dict[str, Any] = {"policy": policy, "key": POLICIES[policy]}
    for client_id in ("steady", "noisy"):
        delays = [
            decision.delay_ms for request, decision in found if request.client_id == client_id
        ]
        row[client_id] = {
            "requests": len(delays),
            "delayed": sum(delay_ms > 0 for delay_ms in delays),
            "longest_ms": max(delays),
        }
    return row


def _draw(axes: Axes, found: Mapping[str, list[tuple[PolicyRequest, Decision]]]) -> None:
    axes.axvspan(NOISY_FROM_S, NOISY_UNTIL_S, color=SOFT, alpha=0.15, linewidth=0)
    axes.text(NOISY_FROM_S + 0.3, 0.97, f"noisy sends {NOISY_MB} MB/s", va="top", fontsize=8.5,
              transform=axes.get_xaxis_transform())  # fmt: skip
    lines = (
        ("kip13_topic", "noisy", SOFT, (1.5, 1.5)),
        ("kip13_topic", "steady", RED, None),
        ("kip13", "noisy", GREEN, (6, 2)),
        ("kip13", "steady", BLUE, (3, 1)),
    )
    for policy, client_id, colour, dashes in lines:
        points = [
            ((request.at_ms - T) / 1000, decision.delay_ms / 1000)
            for request, decision in found[policy]
            if request.client_id == client_id
        ]
        axes.plot(*zip(*points, strict=True), color=colour, linewidth=2,
                  label=f"{policy}: {client_id}",
                  linestyle="-" if dashes is None else (0, dashes))  # fmt: skip
    axes.set_title("seconds that an answer is held", loc="left", fontsize=9)
    axes.set_xlabel("seconds")
    axes.set_xlim(0, SECONDS)
    legend(axes, "upper right")
