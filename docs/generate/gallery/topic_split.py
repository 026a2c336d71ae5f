"""A topic's quota, split equally over its partitions and so over their leaders."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from matplotlib.axes import Axes

from docs.generate.gallery.drawing import BLUE, INK, RED, SOFT, legend, picture
from docs.generate.gallery.page import Page, number
from docs.generate.gallery.traffic import MB, T, WaitingClient, play, produce, served_by_second
from spark_jobs.whatif.policies.catalogue import policy_class
from spark_jobs.whatif.policies.change import TopicAdded
from spark_jobs.whatif.policies.policy import Policy
from spark_jobs.whatif.policies.request import PolicyRequest

QUOTA_MB, PARTITIONS = 8, 8
LEADERS = {1: 3, 2: 3, 3: 2}
SECONDS, SETTLED_S = 60, 20
# MB/s that producers send to each broker; what it means is the name.
OFFERED: Mapping[str, Mapping[int, float]] = {
    "8 MB/s over all partitions": {1: 3, 2: 3, 3: 2},
    "8 MB/s, all of it to one partition of broker 1": {1: 8, 2: 0, 3: 0},
    "12 MB/s over all partitions": {1: 4.5, 2: 4.5, 3: 3},
}


def split_policy(quota: str, partitions: int, leaders: Mapping[int, int]) -> Policy:
    """Return the policy with one topic, ``orders``, that so many partitions of are led where."""
    config = {"quota.producer.override": f"orders:{quota}"}
    policy = policy_class("kip13_topic_partition").configured(config)
    for broker_id, led in leaders.items():
        policy.observe(TopicAdded(T, broker_id, "orders", partitions=partitions, leaders=led))
    return policy


def share(quota: str, partitions: int, leaders: int) -> float:
    """Return the bytes per second that a broker allows the topic, as its decisions say."""
    policy = split_policy(quota, partitions, {1: leaders})
    return policy.decide(produce(T, 1.0, "app")).bound


def written_per_second(offered_mb: float, broker_id: int) -> float:
    """Return the bytes per second written by a producer that offers so much to one broker.

    It sends four times a second, and later where its last answer was held.
    """
    if not offered_mb:
        return 0.0
    policy = split_policy(f"{QUOTA_MB}M", PARTITIONS, LEADERS)

    def send(now_ms: int) -> PolicyRequest:
        return produce(now_ms, offered_mb * MB / 4, "app", broker_id=broker_id)

    client = WaitingClient(send, 250, until_ms=T + 1000 * SECONDS)
    written = served_by_second(list(play(policy, [client])), "app", SECONDS)[SETTLED_S:]
    return sum(written) / len(written)


def page() -> Page:
    """Return the page of the topic's split."""
    shares = {b: share(f"{QUOTA_MB}M", PARTITIONS, led) / MB for b, led in LEADERS.items()}
    rows = [
        {
            "title": title,
            "offered": offered,
            "written": {b: written_per_second(mb, b) / MB for b, mb in offered.items()},
        }
        for title, offered in OFFERED.items()
    ]
    label = (
        f"Brokers lead {_list(LEADERS.values())} of {PARTITIONS} partitions and allow the topic "
        f"{_list(shares.values())} MB/s; what is sent beyond that is held back."
    )

    def draw(axes: list[Axes]) -> None:
        _draw(axes[0], rows, shares)

    return Page(
        name="topic-split",
        title="A topic's quota split over its partitions",
        document="KIP-13, Rejected Alternatives, Quota Distribution B",
        label=label,
        svg=picture("topic-split", label, draw, heights_in=(3.1,)),
        facts={
            "quota": QUOTA_MB,
            "partitions": PARTITIONS,
            "leaders": LEADERS,
            "shares": shares,
            "rows": rows,
            "thirds": share("10", 3, 1),
        },
    )


def _list(values: Iterable[float]) -> str:
    return ", ".join(number(value) for value in values)


def _draw(axes: Axes, rows: list[dict[str, Any]], shares: Mapping[int, float]) -> None:
    ticks, names = [], []
    for i, row in enumerate(rows):
        for j, broker_id in enumerate(LEADERS):
            at = i * 4 + j
            offered, written = row["offered"][broker_id], row["written"][broker_id]
            first = i == j == 0
            axes.bar(at, offered, width=0.8, facecolor="none", edgecolor=RED, hatch="////",
                     linewidth=1.2, label="offered" if first else None)  # fmt: skip
            axes.bar(at, written, width=0.8, color=BLUE, label="written" if first else None)
            axes.plot([at - 0.46, at + 0.46], [shares[broker_id]] * 2, color=INK, linewidth=2,
                      label="the broker's share" if first else None)  # fmt: skip
            ticks.append(at)
            names.append(f"broker {broker_id}")
        axes.text(i * 4 + 1, -0.19, row["title"].replace(", ", ",\n"), ha="center", va="top",
                  fontsize=8.5, color=SOFT, transform=axes.get_xaxis_transform())  # fmt: skip
    axes.set_xticks(ticks, labels=names, fontsize=7.5)
    axes.set_title("MB/s of the topic on each broker", loc="left", fontsize=9)
    legend(axes, "upper right")
