"""560 mutations on a full bucket: 12 seconds by the tokens, 100 by the rate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes

from docs.generate.gallery.drawing import (
    BLUE,
    GREEN,
    PURPLE,
    RED,
    SOFT,
    bound_line,
    legend,
    picture,
)
from docs.generate.gallery.page import Page, seconds
from docs.generate.gallery.traffic import T, create_topics
from spark_jobs.quota.rate import Rate
from spark_jobs.quota.rate_profile import RateProfile
from spark_jobs.quota.throttle_time import throttle_time_ms
from spark_jobs.whatif.policies.catalogue import policy_class
from spark_jobs.whatif.policies.grid_rate import GridRate
from spark_jobs.whatif.policies.kip599.kip599_rate import spread_burst
from spark_jobs.whatif.policies.policy import Policy

Q, SAMPLES, WINDOW_MS = 5, 100, 1000
BURST = (80,) * 7
EXAMPLE: Mapping[str, object] = {
    "controller.quota.window.num": SAMPLES,
    "controller.quota.window.size.seconds": WINDOW_MS // 1000,
    "quotas": [{"user": "alice", "controller_mutation_rate": Q}],
}
NEWEST_FIRST = {**EXAMPLE, "burst.spread": "newest_first"}
RULES = (
    "kip599_token_bucket",
    "kip599_rate_burst_spread",
    "kip599_rate",
    "broker_controller_mutation",
)
SHOWN_S = 110

# (seconds after T, partitions of one topic) of each request; where the rules come apart.
SEQUENCES: Mapping[str, Sequence[tuple[int, int]]] = {
    "560, then one each at 12, 99, 100 s": ((0, 560), (12, 1), (99, 1), (100, 1)),
    "300, 300 at 10 s, one at 20 s": ((0, 300), (10, 300), (20, 1)),
    "560, 60 every 12 s, then one each at 99, 100 s": (
        (0, 560), *((at_s, 60) for at_s in range(12, 97, 12)), (99, 1), (100, 1),
    ),
}  # fmt: skip


def after_the_burst(name: str) -> Policy:
    """Return a policy of the example that has just admitted its seven topics of 80 partitions."""
    policy = policy_class(name).configured(EXAMPLE)
    policy.decide(create_topics(T, *BURST))
    return policy


def first_admitted_ms(name: str) -> int:
    """Return the time from the burst to the first admitted mutation, in ms.

    Tries spend nothing while they are refused, and until then the rules only become kinder.
    """
    low_ms, high_ms = 0, 200_000
    while high_ms - low_ms > 1:
        middle_ms = (low_ms + high_ms) // 2
        found = after_the_burst(name).decide(create_topics(T + middle_ms, 1))
        low_ms, high_ms = (low_ms, middle_ms) if not found.refusal else (middle_ms, high_ms)
    return high_ms


def page() -> Page:
    """Return the page of the burst of 560 mutations."""
    rows = [_row(name) for name in RULES]
    admitted = {row["name"]: seconds(row["first_admitted_ms"]) for row in rows}
    label = (
        f"After a burst of {sum(BURST)} partitions the rate stays above its quota of {Q} for "
        f"{admitted['kip599_rate']}; spread over earlier samples it falls to {Q} in "
        f"{admitted['kip599_rate_burst_spread']}, as the tokens rise to 0."
    )
    return Page(
        name="mutation-burst",
        title="560 mutations on a full bucket",
        document="KIP-599, late revision",
        label=label,
        svg=picture("mutation-burst", label, _draw, heights_in=(2.5, 2.0)),
        facts={
            "q": Q,
            "samples_number": SAMPLES,
            "window_s": WINDOW_MS // 1000,
            "burst": BURST,
            "rows": rows,
            "samples": sample_values(),
            "broker": broker_rate(),
            "sequences": [_sequence(steps) for steps in SEQUENCES.items()],
        },
    )


def sample_values() -> list[tuple[float, int]]:
    """Return the values of the samples after the burst was spread, and how many have each."""
    grid = GridRate(SAMPLES, WINDOW_MS)
    for partitions in BURST:
        spread_burst(grid, partitions, Q, T)
    values = grid.values(T)
    return [(value, values.count(value)) for value in dict.fromkeys(values)]


def broker_rate() -> dict[str, float]:
    """Return the burst at T as a broker's own ``Rate`` of today has it: rate, window, throttle."""
    rate = _brokers_rate()
    measured, window_ms = rate.measure(T), rate.window_size_ms(T)
    return {
        "rate": measured,
        "window_ms": window_ms,
        "throttle_ms": throttle_time_ms(measured, float(Q), window_ms),
        "within_s": next(s for s in range(200) if _brokers_rate().measure(T + 1000 * s) <= Q),
    }


def _brokers_rate() -> Rate:
    rate = Rate(RateProfile.RATE_3_8, samples=SAMPLES, window_ms=WINDOW_MS)
    for partitions in BURST:
        rate.record(partitions, T)
    return rate


def _row(name: str) -> dict[str, Any]:
    burst = policy_class(name).configured(EXAMPLE).decide(create_topics(T, *BURST))
    told = after_the_burst(name).decide(create_topics(T, 1))
    return {
        "name": name,
        "before": [topic.measured for topic in burst.topics],
        "after": burst.measured,
        "throttle_ms": told.delay_ms,
        "first_admitted_ms": first_admitted_ms(name),
    }


def _sequence(steps: tuple[str, Sequence[tuple[int, int]]]) -> dict[str, str]:
    title, requests = steps
    found = {"title": title}
    for name in RULES[:3]:
        found[name] = _answers(name, EXAMPLE, requests)
    found["newest_first"] = _answers("kip599_rate_burst_spread", NEWEST_FIRST, requests)
    return found


def _answers(name: str, config: Mapping[str, object], requests: Sequence[tuple[int, int]]) -> str:
    policy = policy_class(name).configured(config)
    answers = []
    for at_s, partitions in requests:
        decision = policy.decide(create_topics(T + 1000 * at_s, partitions))
        answers.append("yes" if decision.refusal is None else "no")
    # What all of them admit is no news: only the last three are shown.
    return ", ".join(answers[-3:])


def _measures(name: str) -> Iterator[float]:
    """Yield the rule's own measure at every second from the burst on, asked by 0 partitions."""
    policy = after_the_burst(name)
    for at_s in range(SHOWN_S + 1):
        yield policy.decide(create_topics(T + 1000 * at_s, 0)).measured


def _draw(axes: list[Axes]) -> None:
    rates, tokens = axes
    times = range(SHOWN_S + 1)
    brokers = [_brokers_rate().measure(T + 1000 * s) for s in times]
    rates.plot(times, list(_measures("kip599_rate")), color=RED, linewidth=2,
               drawstyle="steps-post", label="kip599_rate")  # fmt: skip
    rates.plot(times, list(_measures("kip599_rate_burst_spread")), color=BLUE, linewidth=2,
               dashes=(6, 2), label="kip599_rate_burst_spread")  # fmt: skip
    rates.plot(times, brokers, color=PURPLE, linewidth=1.6, dashes=(1.5, 1.5),
               drawstyle="steps-post", label="a broker's own Rate (observed only)")  # fmt: skip
    rates.set_ylim(0, 6.4)
    rates.set_title("rate, partitions per second", loc="left", fontsize=9)
    bound_line(rates, Q, f"Q = {Q}")
    legend(rates, "lower left")
    tokens.plot(times, list(_measures("kip599_token_bucket")), color=GREEN, linewidth=2,
                label="kip599_token_bucket, broker_controller_mutation")  # fmt: skip
    tokens.set_title("tokens", loc="left", fontsize=9)
    bound_line(tokens, 0, "admits from 0 on")
    legend(tokens, "upper left")
    tokens.set_xlabel("seconds after the burst")
    for each in axes:
        each.set_xlim(0, SHOWN_S)
        each.set_xticks([0, 12, 20, 40, 60, 80, 100])
        for at_s in (12, 100):
            each.axvline(at_s, color=SOFT, linewidth=0.8, dashes=(2, 2))
