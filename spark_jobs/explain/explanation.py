"""One request with everything that was decided about it, in sections of lines."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spark_jobs.explain.decision_steps import (
    BucketSteps,
    RateSteps,
    bucket_before,
    bucket_steps,
    rate_before,
    rate_steps,
    throttle_max_ms,
)
from spark_jobs.explain.words import (
    advice_lines,
    bucket_lines,
    logged_lines,
    quota_lines,
    rate_lines,
)
from spark_jobs.quota.codes import QuotaType
from spark_jobs.quota.partition_inventory import is_strict
from spark_jobs.wording.names import entity_name
from spark_jobs.wording.numbers import duration, moment
from spark_jobs.wording.visible_text import visible

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class DecisionHistory:
    """One decision with what its sensor's state follows from."""

    decision: Row
    broker: Row
    carried: Row | None
    earlier: Sequence[Row]
    proposals: Sequence[Row]


@dataclass(frozen=True, slots=True)
class Section:
    """What one quota decided about the request; ``steps`` None where no arithmetic is known."""

    quota_type: str
    lines: tuple[str, ...]
    steps: RateSteps | BucketSteps | None


@dataclass(frozen=True, slots=True)
class Explanation:
    """An answer to "why was this request throttled", or why it was not."""

    headline: str
    place: str
    outcome: str
    sections: tuple[Section, ...]


def explanation(histories: Sequence[DecisionHistory]) -> Explanation:
    """Return the explanation of one request from all decisions about it, at least one."""
    first = histories[0].decision
    throttled_ms = max(h.decision["logged_throttle_time_ms"] for h in histories)
    return Explanation(
        headline=_headline(first),
        place=(
            f"{visible(first['source_file'])}, line {first['source_line']:,}; connection "
            f"{visible(first['connection'])}, correlation id {first['correlation_id']}"
        ),
        outcome=_outcome(throttled_ms, histories),
        sections=tuple(_section(history) for history in histories),
    )


def _headline(decision: Row) -> str:
    who = entity_name(decision["user"], decision["client_id"])
    return (
        f"{decision['api_name']} of {who} to broker {decision['broker_id']}, "
        f"{moment(decision['recorded_at_ms'])}"
    )


def _outcome(throttled_ms: int, histories: Sequence[DecisionHistory]) -> str:
    if not all(h.decision["logged_admitted"] for h in histories):
        return f"It was refused, to be tried again after {duration(throttled_ms)}."
    if throttled_ms:
        return (
            f"It was throttled for {duration(throttled_ms)}: the broker read nothing more from "
            "this connection until then."
        )
    return "It was not throttled."


def _section(history: DecisionHistory) -> Section:
    decision = history.decision
    if decision["bound"] is None:
        return Section(decision["quota_type"], ("No quota was in force.",), None)
    steps = _steps(history)
    lines = [*quota_lines(decision)]
    if isinstance(steps, RateSteps):
        lines += rate_lines(decision, steps)
    elif isinstance(steps, BucketSteps):
        lines += bucket_lines(decision, steps)
    else:
        lines.append(
            "What the broker had counted before is not known well enough to show its arithmetic."
        )
    lines += logged_lines(decision)
    rate = steps if isinstance(steps, RateSteps) else None
    lines += advice_lines(decision, rate, list(history.proposals))
    return Section(decision["quota_type"], tuple(lines), steps)


def _steps(history: DecisionHistory) -> RateSteps | BucketSteps | None:
    """Return the arithmetic, None where it does not lead to what the audit's replay found."""
    decision = history.decision
    if decision["amount"] is None:
        return None
    amount, bound, at_ms = decision["amount"], decision["bound"], decision["recorded_at_ms"]
    if decision["quota_type"] == QuotaType.CONTROLLER_MUTATION_RATE:
        quota = bucket_before(history.broker, history.carried, history.earlier)
        strict = is_strict(decision["api_name"], decision["api_version"])
        found = bucket_steps(quota, amount, bound, at_ms, is_strict=strict)
        is_same = found.throttle_time_ms == decision["replayed_throttle_time_ms"]
        return found if is_same else None
    rate = rate_before(history.broker, history.carried, history.earlier)
    cap_ms = throttle_max_ms(decision["quota_type"], history.broker)
    steps = rate_steps(rate, amount, bound, at_ms, cap_ms)
    if steps.window_size_ms != decision["window_size_ms"]:
        return None
    return steps if math.isclose(steps.rate, decision["rate"], rel_tol=1e-9) else None
