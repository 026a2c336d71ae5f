"""Days of one sensor, decided by the plain-Python rules: what a correct broker would log."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from spark_jobs.quota.controller_mutation import ControllerMutationQuota
from spark_jobs.quota.rate import Rate
from spark_jobs.quota.rate_decision import decide
from spark_jobs.quota.rate_profile import RateProfile
from spark_jobs.quota.token_bucket import TokenBucket
from tests.builders.tables_builder import NOON_MS, Row, row, table_of

Recorded = tuple[int, float]
"""Milliseconds after noon, and the amount."""


def steady(rate: float, seconds: int, per_second: int = 10, from_ms: int = 0) -> list[Recorded]:
    """Return equal amounts at equal distances that make ``rate`` per second."""
    step_ms = 1000 // per_second
    n = seconds * per_second
    return [(from_ms + i * step_ms, rate / per_second) for i in range(n)]


def produces(
    recorded: Iterable[Recorded],
    bound: float | None,
    profile: RateProfile = RateProfile.RATE_3_8,
    *,
    waits: bool = False,
    **columns: Any,
) -> list[Row]:
    """Return the decisions of a producer.

    One that ``waits`` sends again only once it is unmuted: late, but all of it. Else its requests
    arrive when they arrive.
    """
    rate = Rate(profile)
    rows: list[Row] = []
    free_ms = 0
    for seq, (after_ms, amount) in enumerate(recorded):
        at_ms = max(NOON_MS + after_ms, free_ms)
        in_force = float("nan") if bound is None else bound
        made = decide(rate, amount, in_force, at_ms)
        free_ms = at_ms + made.throttle_time_ms if waits else 0
        rows.append(
            _row(
                seq, at_ms, amount, bound, made.throttle_time_ms, rate=made.rate,
                window_size_ms=made.window_size_ms, **columns,
            )
        )  # fmt: skip
    return rows


def fetches(
    recorded: Iterable[Recorded],
    bound: float,
    profile: RateProfile = RateProfile.RATE_3_8,
    **columns: Any,
) -> list[Row]:
    """Return the decisions of a consumer that asks again, once unmuted, for what it did not get."""
    rate = Rate(profile)
    rows: list[Row] = []
    now_ms = NOON_MS
    for after_ms, amount in recorded:
        now_ms = max(now_ms, NOON_MS + after_ms)
        throttle_ms = 1
        while throttle_ms:
            made = decide(rate, amount, bound, now_ms)
            throttle_ms = made.throttle_time_ms
            if throttle_ms:
                rate.record(-amount, now_ms)
            rows.append(
                _row(
                    len(rows), now_ms, amount, bound, throttle_ms, rate=made.rate,
                    window_size_ms=made.window_size_ms, is_unrecorded=throttle_ms > 0,
                    quota_type="consumer_byte_rate", api_name="FETCH", **columns,
                )
            )  # fmt: skip
            now_ms += throttle_ms
    return rows


def mutations(
    recorded: Iterable[Recorded], bound: float, *, is_strict: bool = True, **columns: Any
) -> list[Row]:
    """Return the decisions on topics, one each; a refused one is tried again when there is room."""
    quota = ControllerMutationQuota(TokenBucket())
    rows: list[Row] = []
    now_ms = NOON_MS
    for number, (after_ms, amount) in enumerate(recorded):
        now_ms = max(now_ms, NOON_MS + after_ms)
        is_admitted = False
        while not is_admitted:
            made = quota.decide(amount, bound, now_ms, is_strict=is_strict)
            is_admitted = made.is_admitted
            rows.append(
                _row(
                    len(rows), now_ms, amount, bound, made.throttle_time_ms, rate=None,
                    window_size_ms=None, tokens=made.tokens, logged_admitted=is_admitted,
                    replayed_admitted=is_admitted, resource=f"topic-{number}",
                    quota_type="controller_mutation_rate", api_name="CREATE_TOPICS",
                    api_version=7 if is_strict else 5, **columns,
                )
            )  # fmt: skip
            # A debt of a hair rounds to no delay at all; a client does not come back at once.
            now_ms += max(made.throttle_time_ms, 1)
    return rows


def shares(
    recorded: Mapping[str, Sequence[Recorded]],
    bound: float,
    quota_type: str = "producer_byte_rate",
    **columns: Any,
) -> list[Row]:
    """Return the decisions of client-ids that share a bucket, and wait while they are muted.

    What a fetch did not get, or a mutation was refused, is asked for again.
    """
    rate, tokens = Rate(RateProfile.RATE_3_8), ControllerMutationQuota(TokenBucket())
    is_mutation = quota_type == "controller_mutation_rate"
    api_name = {"p": "PRODUCE", "c": "FETCH"}[quota_type[0]] if not is_mutation else "CREATE_TOPICS"
    queue = [(NOON_MS + own[0][0], name, 0) for name, own in recorded.items() if own]
    heapq.heapify(queue)
    rows: list[Row] = []
    while queue:
        at_ms, name, i = heapq.heappop(queue)
        amount = recorded[name][i][1]
        is_done, own = True, {}
        if is_mutation:
            refused = tokens.decide(amount, bound, at_ms, is_strict=True)
            throttle_ms, is_done = refused.throttle_time_ms, refused.is_admitted
            own = {"logged_admitted": is_done, "replayed_admitted": is_done, "api_version": 7}
            own |= {"rate": None, "resource": f"{name}-{i}", "tokens": refused.tokens}
        else:
            made = decide(rate, amount, bound, at_ms)
            throttle_ms, own = made.throttle_time_ms, {"rate": made.rate}
            if throttle_ms and quota_type == "consumer_byte_rate":
                rate.record(-amount, at_ms)
                is_done, own["is_unrecorded"] = False, True
        rows.append(
            _row(
                len(rows), at_ms, amount, bound, throttle_ms, quota_type=quota_type,
                api_name=api_name, client_id=name, connection=f"connection-of-{name}",
                **own, **columns,
            )
        )  # fmt: skip
        following = i + is_done
        if following < len(recorded[name]):
            # A debt of a hair rounds to no delay; a client does not come back at once.
            free_ms = at_ms + max(throttle_ms, not is_done)
            next_ms = max(free_ms, NOON_MS + recorded[name][following][0])
            heapq.heappush(queue, (next_ms, name, following))
    return rows


def _row(
    seq: int, at_ms: int, amount: float, bound: float | None, throttle_ms: int, **columns: Any
) -> Row:
    return row(
        "decisions",
        sensor_seq=seq,
        correlation_id=seq,
        source_line=seq + 1,
        recorded_at_ms=at_ms,
        log_time_ms=at_ms + 3,
        amount=amount,
        bound=bound,
        logged_throttle_time_ms=throttle_ms,
        replayed_throttle_time_ms=None if bound is None else throttle_ms,
        **columns,
    )


def rates_of(decisions: Sequence[Row]) -> pa.Table:
    """Return the seconds of ``decisions`` as rows of ``rates``; only the key is filled in."""
    sensor = ("broker_id", "quota_type", "quota_user", "quota_client_id")
    seconds = {
        (*(d[name] for name in sensor), d["recorded_at_ms"] // 1000 * 1000) for d in decisions
    }
    names = (*sensor, "second_ms")
    return table_of(
        "rates", [row("rates", **dict(zip(names, s, strict=True))) for s in sorted(seconds)]
    )
