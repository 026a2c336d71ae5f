"""A consumer that begins anew reads everything there is, and slows nobody but itself."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from matplotlib.axes import Axes

from docs.generate.gallery.drawing import BLUE, GREEN, RED, SOFT, bound_line, legend, picture
from docs.generate.gallery.page import Page
from docs.generate.gallery.traffic import MB, T, WaitingClient, fetch, play, served_by_second
from spark_jobs.whatif.policies.catalogue import policy_class
from spark_jobs.whatif.policies.decision import Decision
from spark_jobs.whatif.policies.request import PolicyRequest

QUOTA_MB = 5
OTHERS_MB: Mapping[str, float] = {"billing": 0.5, "search": 1, "audit": 3}
SECONDS, BEGINS_S = 60, 10
FETCH_MB, READS_MB_PER_S = 1, 50
UNLIMITED = "1000G"

Played = list[tuple[PolicyRequest, Decision]]


def played(policy: str, config: Mapping[str, object], bootstraps: bool = True) -> Played:
    """Return every fetch with its decision, with or without the consumer that begins."""
    until_ms = T + 1000 * SECONDS
    clients = [
        WaitingClient(partial(_fetch, client_id, mb * MB / 5), 200, until_ms=until_ms)
        for client_id, mb in OTHERS_MB.items()
    ]
    if bootstraps:
        pause_ms = 1000 * FETCH_MB // READS_MB_PER_S
        send = partial(_fetch, "bootstrap", FETCH_MB * MB)
        clients.append(WaitingClient(send, pause_ms, T + 1000 * BEGINS_S, until_ms))
    return list(play(policy_class(policy).configured(config), clients))


def decisions_changed(policy: str) -> tuple[int, int]:
    """Return the number of the other clients' requests that the new one changes, and of all.

    A request is changed when its decision is another, or when it is sent at another time.
    """
    config = {"quota.consumer.default": f"{QUOTA_MB}M"}
    alone = _of_others(played(policy, config, bootstraps=False))
    beside = _of_others(played(policy, config))
    same = sum(beside.get(key) == decision for key, decision in alone.items())
    return len(alone) - same, len(alone)


def page() -> Page:
    """Return the page of the consumer that bootstraps."""
    throttled = played("kip13", {"quota.consumer.default": f"{QUOTA_MB}M"})
    free = played("kip13", {"quota.consumer.default": UNLIMITED})
    label = (
        f"A consumer that begins anew would read {READS_MB_PER_S} MB/s; under KIP-13 it reads a "
        "window's worth at once and then waits, again and again, and the others read on as before."
    )

    def draw(axes: list[Axes]) -> None:
        _draw(axes, free, throttled)

    delays = [d.delay_ms for request, d in throttled if request.client_id == "bootstrap"]
    return Page(
        name="consumer-bootstrap",
        title="A consumer bootstraps",
        document="KIP-13, Quota Policy",
        label=label,
        svg=picture("consumer-bootstrap", label, draw, heights_in=(2.2, 1.6)),
        facts={
            "quota": QUOTA_MB,
            "seconds": SECONDS,
            "begins_s": BEGINS_S,
            "wanted": READS_MB_PER_S,
            "others": OTHERS_MB,
            "longest_ms": max(delays),
            "free": _mean(free),
            "throttled": _mean(throttled),
            "changed": {name: decisions_changed(name) for name in ("kip13", "kip13_topic")},
        },
    )


def _fetch(client_id: str, amount: float, at_ms: int) -> PolicyRequest:
    return fetch(at_ms, amount, client_id)


def _mean(found: Played) -> float:
    """Return the MB/s that the consumer reads, from when it begins until the end."""
    served = served_by_second(found, "bootstrap", SECONDS)[BEGINS_S:]
    return sum(served) / len(served) / MB


def _of_others(found: Played) -> dict[tuple[str | None, int], tuple[int, bool]]:
    return {
        (request.client_id, request.at_ms): (decision.delay_ms, decision.refusal is None)
        for request, decision in found
        if request.client_id != "bootstrap"
    }


def _draw(axes: list[Axes], free: Played, throttled: Played) -> None:
    top, bottom = axes
    edges = range(SECONDS + 1)
    lines = ((free, SOFT, "bootstrap, without a quota", (3, 1.5)),
             (throttled, RED, f"bootstrap, quota {QUOTA_MB} MB/s", None))  # fmt: skip
    for found, colour, name, dashes in lines:
        served = [value / MB for value in served_by_second(found, "bootstrap", SECONDS)]
        top.stairs(served, edges, baseline=None, color=colour, linewidth=2, label=name,
                   linestyle="-" if dashes is None else (0, dashes))  # fmt: skip
    top.set_title("MB/s read", loc="left", fontsize=9)
    top.set_ylim(0, READS_MB_PER_S * 1.6)
    legend(top, "upper right", columns=2)
    colours = ((BLUE, (1.5, 1.5)), (GREEN, (6, 2)), (RED, (3, 1)))
    for (client_id, _), (colour, dashed) in zip(OTHERS_MB.items(), colours, strict=True):
        served = [value / MB for value in served_by_second(throttled, client_id, SECONDS)]
        bottom.stairs(served, edges, baseline=None, color=colour, linewidth=2, label=client_id,
                      linestyle=(0, dashed))  # fmt: skip
    bottom.set_ylim(0, QUOTA_MB * 1.6)
    bound_line(bottom, QUOTA_MB, f"quota {QUOTA_MB} MB/s")
    bottom.set_title("MB/s read by the others", loc="left", fontsize=9)
    bottom.set_xlabel("seconds")
    legend(bottom, "upper left", columns=3)
    for each in axes:
        each.set_xlim(0, SECONDS)
