"""A consumer of many topics under quotas of (client-id, topic)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count

from matplotlib.axes import Axes

from docs.generate.gallery.drawing import BLUE, GREEN, RED, legend, picture
from docs.generate.gallery.page import Page
from docs.generate.gallery.traffic import MB, T, WaitingClient, fetch, play, served_by_second
from spark_jobs.whatif.policies.catalogue import policy_class
from spark_jobs.whatif.policies.request import PolicyRequest

TOPICS = (1, 2, 5, 10, 20, 40)
QUOTA_MB, CAP_MB = 2, 10
# The first window is left out: what a new client reads before it is full is free.
SECONDS, SETTLED_S = 30, 10
PAUSE_MS = 10
CONFIGS: Mapping[str, tuple[str, Mapping[str, object]]] = {
    "client_id": ("kip13", {"quota.consumer.default": f"{QUOTA_MB}M"}),
    "tuple": ("kip13_client_topic", {"quota.consumer.default": f"{QUOTA_MB}M"}),
    "capped": (
        "kip13_client_topic",
        {"quota.consumer.default": f"{QUOTA_MB}M", "quota.consumer.cap": f"{CAP_MB}M"},
    ),
}


def read_per_second(policy: str, config: Mapping[str, object], topics: int) -> float:
    """Return the bytes per second that a consumer of so many topics reads in the long run.

    It fetches 1 MB of one topic after the other, as fast as it is let.
    """
    turns = count()

    def send(now_ms: int) -> PolicyRequest:
        return fetch(now_ms, MB, "wildcard", {f"topic-{next(turns) % topics}": MB})

    client = WaitingClient(send, PAUSE_MS, until_ms=T + 1000 * SECONDS)
    played = list(play(policy_class(policy).configured(config), [client]))
    settled = served_by_second(played, "wildcard", SECONDS)[SETTLED_S:]
    return sum(settled) / len(settled)


def page() -> Page:
    """Return the page of the wildcard consumer."""
    found = {
        name: [read_per_second(policy, config, n) / MB for n in TOPICS]
        for name, (policy, config) in CONFIGS.items()
    }
    label = (
        f"With a quota per client-id a consumer reads about {QUOTA_MB} MB/s whatever it "
        "subscribes to; with one per client-id and topic it reads as much more with every topic."
    )

    def draw(axes: list[Axes]) -> None:
        _draw(axes[0], found)

    return Page(
        name="wildcard-consumer",
        title="A wildcard consumer under (client-id, topic) quotas",
        document="KIP-13, Rejected Alternatives, Quota Distribution A",
        label=label,
        svg=picture("wildcard-consumer", label, draw, heights_in=(3.0,)),
        facts={
            "quota": QUOTA_MB,
            "cap": CAP_MB,
            "pause_ms": PAUSE_MS,
            "seconds": SECONDS - SETTLED_S,
            "rows": [
                {"topics": n, **{name: found[name][i] for name in found}}
                for i, n in enumerate(TOPICS)
            ],
        },
    )


def _draw(axes: Axes, found: Mapping[str, list[float]]) -> None:
    axes.plot(TOPICS, found["tuple"], color=RED, marker="o", linewidth=2,
              label="kip13_client_topic")  # fmt: skip
    axes.plot(TOPICS, found["capped"], color=GREEN, marker="s", linewidth=2, dashes=(6, 2),
              label=f"kip13_client_topic, cap {CAP_MB} MB/s")  # fmt: skip
    axes.plot(TOPICS, found["client_id"], color=BLUE, marker="^", linewidth=2, dashes=(2, 2),
              label="kip13")  # fmt: skip
    axes.set_title("MB/s that one consumer reads from one broker", loc="left", fontsize=9)
    axes.set_xlabel("topics it subscribes to")
    axes.set_xticks(TOPICS)
    axes.set_ylim(0)
    legend(axes, "upper left")
