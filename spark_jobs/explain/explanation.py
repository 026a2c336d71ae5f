"""One request with everything that was decided about it, in sections of lines."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
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
from spark_jobs.quota.codes import BANDWIDTH_TYPES, QuotaType
from spark_jobs.quota.partition_inventory import is_strict
from spark_jobs.wording.names import REASONS, VERDICTS, entity_name, in_words
from spark_jobs.wording.numbers import duration, exact_rate, moment, significant
from spark_jobs.wording.visible_text import shortened, visible

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


_COUNTED = {
    "producer_byte_rate": "bytes",
    "consumer_byte_rate": "bytes",
    "request_percentage": "percent of a second",
    "controller_mutation_rate": "partitions",
}
_TOGETHER = {
    "producer_byte_rate": "on each broker: the bytes produced by",
    "consumer_byte_rate": "on each broker: the bytes fetched by",
    "request_percentage": "on each broker: the time of its request threads used by",
    "controller_mutation_rate": "in the whole cluster: the partitions created and deleted by",
}


def clock(at_ms: int) -> str:
    """Return the time of day, to the millisecond.

    >>> clock(1_794_312_000_250)
    '12:00:00.250'
    """
    return moment(at_ms)[11:23]


def quota_lines(decision: Row) -> Iterator[str]:
    """Yield which quota was in force and what it counts."""
    quota_type = decision["quota_type"]
    who = entity_name(decision["quota_user"], decision["quota_client_id"])
    level = decision["quota_level"]
    set_for = "a default that is followed" if "default" in level else "set by name"
    value = exact_rate(decision["bound"], quota_type)
    yield f"Quota: {value} for {who} ({set_for}, level {level})."
    all_of_them = "" if decision["quota_client_id"] else ", whatever the client-id"
    yield f"Counted together, {_TOGETHER[quota_type]} {who}{all_of_them}."


def rate_lines(decision: Row, steps: RateSteps) -> Iterator[str]:
    """Yield the windowed rate and the throttle, step by step."""
    counted = _COUNTED[decision["quota_type"]]
    now_ms = decision["recorded_at_ms"]
    yield f"This request added {amount(decision['amount'])} {counted}, at {clock(now_ms)}."
    yield "The broker then held:"
    width = max(len(amount(sample.value)) for sample in steps.samples)
    width = max(width, len(amount(steps.total)))
    for sample in steps.samples:
        marks = [
            *(["the oldest: the window begins here"] if sample.is_oldest else []),
            *(["the current one, with this request"] if sample.is_current else []),
        ]
        note = f"   {', and '.join(marks)}" if marks else ""
        yield f"  since {clock(sample.start_ms)}  {amount(sample.value):>{width}}{note}"
    yield f"  {'sum':<18}  {amount(steps.total):>{width}} {counted}"
    yield _window(steps)
    rate, bound = (exact_number(n) for n in (steps.rate, steps.bound))
    seconds = steps.window_size_ms / 1000
    compared = "not above" if steps.is_acceptable else "above"
    yield f"Rate: {amount(steps.total)} / {seconds:g} s = {rate}, {compared} the quota of {bound}."
    if steps.is_acceptable:
        yield "So the quota does not throttle it."
        return
    yield (
        f"Throttle: ({rate} − {bound}) / {bound} × {steps.window_size_ms:,} ms = "
        f"{steps.uncapped_ms:,} ms."
    )
    if steps.throttle_time_ms != steps.uncapped_ms:
        yield f"A request quota throttles for one window at most: {steps.throttle_time_ms:,} ms."
    if decision["is_unrecorded"]:
        yield (
            "So the fetch was answered with nothing, its bytes were taken off the sum again, and "
            "the client asks for them once more."
        )


def bucket_lines(decision: Row, steps: BucketSteps) -> Iterator[str]:
    """Yield the token bucket and what came of it, step by step."""
    bound = exact_number(steps.bound)
    if decision["resource"]:
        yield f"Topic '{shortened(visible(decision['resource']))}'."
    yield (
        f"The bucket refills by {bound} a second, up to {exact_number(steps.burst)} partitions "
        "(the burst); a topic may overdraw it, the next one has to wait until it is back at 0."
    )
    if steps.tokens_then is None or steps.elapsed_ms is None:
        yield f"Nobody had used it: it was full, with {exact_number(steps.tokens_before)}."
    else:
        yield (
            f"{duration(steps.elapsed_ms)} before, {_tokens(steps.tokens_then)} were left; with "
            f"what was refilled since, {_tokens(steps.tokens_before)}."
        )
    if not steps.is_admitted:
        yield (
            f"That is below 0, so the mutation of {amount(steps.amount)} is refused until it is "
            f"back at 0: {exact_number(-steps.tokens_before)} / {bound} s = "
            f"{steps.throttle_time_ms:,} ms."
        )
        yield from _wait(decision, steps)
        return
    yield f"It is not below 0, so {amount(steps.amount)} partitions are spent: " + (
        f"{_tokens(steps.tokens_after)} are left."
    )
    if steps.throttle_time_ms:
        yield f"A request of this version is not refused, but muted: {steps.throttle_time_ms:,} ms."
        yield from _wait(decision, steps)


def _wait(decision: Row, steps: BucketSteps) -> Iterator[str]:
    passed_ms = steps.throttle_time_ms - decision["logged_throttle_time_ms"]
    if passed_ms > 0 and decision["logged_throttle_time_ms"]:
        yield f"The {passed_ms:,} ms until the answer was made are taken off."


def logged_lines(decision: Row) -> Iterator[str]:
    """Yield what the log has, and what this audit says of it."""
    logged, verdict = decision["logged_throttle_time_ms"], decision["verdict"]
    refused = ", and it was refused" if not decision["logged_admitted"] else ""
    reason = decision["reason"]
    because = f": {in_words(reason, REASONS)}" if reason else ""
    judged = f"{in_words(verdict, VERDICTS)}{because}"
    yield f"The log has a throttle of {logged:,} ms{refused}: {judged}."


def advice_lines(decision: Row, steps: RateSteps | None, proposals: list[Row]) -> Iterator[str]:
    """Yield what the owner of the client can do; nothing where the request was not held back."""
    quota_type = decision["quota_type"]
    if not decision["logged_throttle_time_ms"]:
        return
    if steps is not None and steps.excess:
        over = f"{amount(math.ceil(steps.excess))} {_COUNTED[quota_type]}"
        yield (
            f"With {over} less in the {steps.window_size_ms / 1000:g} s before, or the same spread "
            "over more time, nothing is throttled."
        )
    if quota_type in BANDWIDTH_TYPES and not decision["quota_client_id"]:
        yield "Other client-ids of the same user fill the same quota: look at them too."
    for proposal in proposals:
        yield proposal_line(proposal)


def proposal_line(proposal: Row) -> str:
    """Return the audit's recommendation on the quota in words."""
    who = entity_name(proposal["quota_user"], proposal["quota_client_id"])
    if proposal["status"] != "proposed":
        return f"The audit does not propose another value for {who}. {proposal['reason']}"
    value = proposal["proposed"]
    wanted = "to remove it" if value is None else exact_rate(value, proposal["quota_type"])
    return f"Ask who runs the cluster: the audit proposes {wanted} for {who}. {proposal['reason']}"


def amount(value: float | None) -> str:
    """Return an amount with all the digits that say something.

    >>> amount(2137.0), amount(0.0161), amount(None)
    ('2,137', '0.0161', 'an unknown number of')
    """
    if value is None or math.isnan(value):
        return "an unknown number of"
    return f"{value:,.0f}" if float(value).is_integer() else significant(value, 6)


def exact_number(value: float) -> str:
    """Return a rate so that the arithmetic can be followed with a pocket calculator.

    >>> exact_number(400407.98971620685), exact_number(5.0)
    ('400,407.9897', '5')
    """
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.4f}".rstrip("0")


def _tokens(value: float) -> str:
    return "nobody knows how many" if math.isnan(value) else exact_number(round(value, 4))


def _window(steps: RateSteps) -> str:
    seconds = f"{steps.window_size_ms / 1000:g} s"
    if not steps.added_ms:
        return f"Divided by {seconds}: the time since the oldest sample began."
    return (
        f"Divided by {seconds}: {steps.elapsed_ms / 1000:g} s since the oldest sample began, and "
        f"{steps.added_ms / 1000:g} s more, because a broker counts at least "
        f"{steps.full_windows_min} whole windows, empty ones too."
    )
