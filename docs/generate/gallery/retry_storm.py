"""What an error at once costs when the client sends everything again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from matplotlib.axes import Axes

from docs.generate.gallery.drawing import BLUE, GREEN, INK, PURPLE, RED, legend, picture
from docs.generate.gallery.page import Page
from docs.generate.gallery.traffic import MB, T, produce
from spark_jobs.whatif.policies.catalogue import policy_class
from spark_jobs.whatif.policies.kip13.kip13_refusing import Kip13DelayThenError, Kip13Refusing

QUOTA_MB, OFFERED_MB, REQUEST_MB = 5, 10, 5
SENDS_S, SHOWN_S = 10, 16
BACKOFFS_MS = (1, 10, 100, 1000)
PARKED_MS = 1000
RETRIES = (0, 3, 10, 100)
FOR_EVER = 1_000_000
_LINES: Mapping[int, tuple[str, tuple[float, float] | None]] = {
    1: (RED, None),
    10: (PURPLE, (6, 2)),
    100: (GREEN, (3, 2)),
    1000: (BLUE, (1.5, 1.5)),
}


def refusing(name: str, config: Mapping[str, object]) -> Kip13Refusing:
    """Return a policy that refuses, with the quota of the page."""
    made = policy_class(name).configured({"quota.producer.default": f"{QUOTA_MB}M", **config})
    return cast(Kip13Refusing, made)


def storm(policy: Kip13Refusing, shown_s: int = SHOWN_S) -> list[float]:
    """Return the bytes sent in each second by a producer that offers twice its quota.

    It goes on for ``SENDS_S``; its retries, until they succeed or run out.
    """
    every_ms = 1000 * REQUEST_MB // OFFERED_MB
    times = range(T, T + 1000 * SENDS_S, every_ms)
    sent, retried = [0.0] * shown_s, 0.0
    for second in range(shown_s):
        begin_ms, end_ms = T + 1000 * second, T + 1000 * (second + 1)
        for at_ms in (at_ms for at_ms in times if begin_ms <= at_ms < end_ms):
            policy.decide(produce(at_ms, REQUEST_MB * MB, "noisy"))
            sent[second] += REQUEST_MB * MB
        policy.settle(end_ms - 1)
        total = sum(cost.retried_bytes for cost in policy.costs().values())
        sent[second] += total - retried
        retried = total
    return sent


def page() -> Page:
    """Return the page of the retry storm."""
    sent, rows = {}, []
    for backoff_ms in BACKOFFS_MS:
        config = {"retries": FOR_EVER, "retry.backoff.ms": backoff_ms}
        policy = refusing("kip13_immediate_error", config)
        sent[backoff_ms] = storm(policy)
        title = f"`kip13_immediate_error`, back-off {backoff_ms} ms"
        rows.append(_row(title, policy, sent[backoff_ms]))
    parking_config = {"retries": FOR_EVER, "quota.delay.ms": PARKED_MS}
    parking = cast(Kip13DelayThenError, refusing("kip13_delay_then_error", parking_config))
    rows.append(
        _row(
            f"`kip13_delay_then_error`, parked {PARKED_MS} ms, no back-off", parking, storm(parking)
        )
    )
    label = (
        f"A producer that offers {OFFERED_MB} MB/s against a quota of {QUOTA_MB} MB/s sends, in "
        f"its worst second, {rows[0]['worst_mb']:.0f} MB where it retries every millisecond, and "
        f"{rows[3]['worst_mb']:.0f} MB where it backs off for a second."
    )

    def draw(axes: list[Axes]) -> None:
        _draw(axes[0], sent)

    return Page(
        name="retry-storm",
        title="A retry storm under immediate errors",
        document="KIP-13, Rejected Alternatives, Quota Actions A and B",
        label=label,
        svg=picture("retry-storm", label, draw, heights_in=(3.0,)),
        facts={
            "quota": QUOTA_MB,
            "offered": OFFERED_MB,
            "request": REQUEST_MB,
            "seconds": SENDS_S,
            "shown": SHOWN_S,
            "parked_ms": PARKED_MS,
            "rows": rows,
            "delayed": delayed(),
            "parked_mb": max(held for _, held in parking.parked_bytes(1)) / MB,
            "lost": [_lost(retries) for retries in RETRIES],
        },
    )


def delayed() -> dict[str, float]:
    """Return the same requests under KIP-13: number, refusals, longest delay (ms)."""
    policy = policy_class("kip13").configured({"quota.producer.default": f"{QUOTA_MB}M"})
    every_ms = 1000 * REQUEST_MB // OFFERED_MB
    found = [
        policy.decide(produce(at_ms, REQUEST_MB * MB, "noisy"))
        for at_ms in range(T, T + 1000 * SENDS_S, every_ms)
    ]
    return {
        "requests": len(found),
        "refused": sum(decision.refusal is not None for decision in found),
        "longest_ms": max(decision.delay_ms for decision in found),
    }


def _row(title: str, policy: Kip13Refusing, sent: list[float]) -> dict[str, Any]:
    cost = policy.costs()["1/PRODUCE/noisy"]
    return {
        "title": title,
        "retries": cost.retried_requests,
        "retried_mb": cost.retried_bytes / MB,
        "worst_mb": max(sent) / MB,
        "times": sum(sent) / (SENDS_S * OFFERED_MB * MB),
    }


def _lost(retries: int) -> dict[str, float]:
    found: dict[str, float] = {"retries": retries}
    configs = {
        "kip13_immediate_error": {"retry.backoff.ms": 100},
        "kip13_delay_then_error": {"quota.delay.ms": PARKED_MS},
    }
    for name, config in configs.items():
        policy = refusing(name, {"retries": retries, **config})
        storm(policy, shown_s=60)
        found[name] = policy.costs()["1/PRODUCE/noisy"].lost_bytes / MB
    return found


def _draw(axes: Axes, sent: Mapping[int, list[float]]) -> None:
    for backoff_ms, values in sent.items():
        colour, dashes = _LINES[backoff_ms]
        shown = [value / MB or float("nan") for value in values]
        axes.stairs(shown, range(SHOWN_S + 1), baseline=None, color=colour, linewidth=2,
                    label=f"back-off {backoff_ms} ms",
                    linestyle="-" if dashes is None else (0, dashes))  # fmt: skip
    offered = [OFFERED_MB] * SENDS_S
    axes.stairs(offered, range(SENDS_S + 1), baseline=None, color=INK, linewidth=1.2,
                label="offered, and kip13")  # fmt: skip
    axes.set_yscale("log")
    axes.set_ylim(1, 100_000)
    axes.set_yticks([1, 10, 100, 1000, 10_000, 100_000], labels=[
        "1", "10", "100", "1 000", "10 000", "100 000"])  # fmt: skip
    axes.minorticks_off()
    axes.set_title("MB/s that the producer sends, retries included (logarithmic)", loc="left",
                   fontsize=9)  # fmt: skip
    axes.set_xlabel("seconds")
    axes.set_xlim(0, SHOWN_S)
    legend(axes, "upper left")
