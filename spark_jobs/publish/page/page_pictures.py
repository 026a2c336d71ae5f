"""Which sensors get a picture, and what is said about each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from markupsafe import Markup

from spark_jobs.judge.decision_counts import SensorUse
from spark_jobs.judge.throttles import ThrottledSensor, throttled_seconds
from spark_jobs.publish.facts.audit_facts import AuditFacts
from spark_jobs.publish.facts.sensor_history import SensorHistory, sensor_histories
from spark_jobs.publish.page.pictures import picture
from spark_jobs.warehouse.sensors import Sensor
from spark_jobs.wording.names import plural
from spark_jobs.wording.numbers import count, duration, rate, significant, time_of_day

# Of clients that nobody throttled, the few closest to their quota are worth a look.
_CLOSEST_MAX = 4
# A client that was there for less than this share of the log gets its own time axis.
_OWN_SPAN_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class SensorPicture:
    """One sensor's picture and what it shows in words."""

    anchor: str
    sensor: Sensor
    caption: str
    svg: Markup
    has_finding: bool


def sensor_pictures(facts: AuditFacts, pictures_max: int) -> tuple[SensorPicture, ...]:
    """Return the pictures of at most ``pictures_max`` sensors, in the order of their weight."""
    sensors = pictured_sensors(facts)[:pictures_max]
    seconds = throttled_seconds(facts.throttled_by_second, sensors)
    histories = sensor_histories(facts.scope, sensors, seconds)
    if not histories:
        return ()
    whole = (
        min(int(h.start_ms[0]) for h in histories.values()),
        max(h.end_ms for h in histories.values()),
    )
    return tuple(
        _drawn(facts, number, history, whole)
        for number, history in enumerate(histories.values(), start=1)
    )


def pictured_sensors(facts: AuditFacts) -> list[Sensor]:
    """Return who is worth a picture: those with findings, then the most throttled.

    Where there are neither, those closest to their quota.
    """
    found = _with_findings(facts)
    sensors = dict.fromkeys(s for s in found if s in facts.uses)
    sensors |= dict.fromkeys(throttled.sensor for throttled in facts.throttled)
    return list(sensors) or [use.sensor for use in facts.never_throttled[:_CLOSEST_MAX]]


def _with_findings(facts: AuditFacts) -> list[Sensor]:
    worth = (f.sensor for f in facts.findings if f.severity != "info")
    return [sensor for sensor in worth if sensor is not None]


def _drawn(
    facts: AuditFacts, number: int, history: SensorHistory, whole: tuple[int, int]
) -> SensorPicture:
    sensor = history.sensor
    own = (int(history.start_ms[0]), history.end_ms)
    is_short = own[1] - own[0] < _OWN_SPAN_SHARE * (whole[1] - whole[0])
    use = facts.uses[sensor]
    broker = facts.broker(sensor.broker_id)
    window_ms = broker.remembers_ms(sensor.quota_type) if broker else 0
    full = use.bound_max * window_ms / 1000 if window_ms and use.bound_max else None
    throttled = next((t for t in facts.throttled if t.sensor == sensor), None)
    caption = " ".join(_sentences(facts, history, throttled, is_short))
    if window_ms and history.step_ms > 1000:
        caption += f" The broker looks {duration(window_ms)} back."
    label = f"{sensor.entity}, {sensor.quota_type} on broker {sensor.broker_id}. {caption}"
    svg = picture(history, own if is_short else whole, window_ms, full, label)
    return SensorPicture(f"picture-{number}", sensor, caption, svg, sensor in _with_findings(facts))


def _sentences(
    facts: AuditFacts,
    history: SensorHistory,
    throttled: ThrottledSensor | None,
    is_short: bool,
) -> Iterable[str]:
    use = facts.uses[history.sensor]
    yield _peak(use)
    if throttled is None:
        yield "Never throttled."
    elif throttled.refused:
        yield f"{count(throttled.refused)} {plural(throttled.refused, 'mutation')} refused."
    else:
        yield (
            f"{count(throttled.requests)} {plural(throttled.requests, 'request')} throttled, "
            f"{duration(throttled.throttle_time_ms)} of delay in total."
        )
    if history.step_ms > 1000:
        extreme = "peak" if use.tokens_min is None else "lowest"
        yield f"Each point is the {extreme} of {duration(history.step_ms)}."
    if is_short:
        day = facts.scope.day
        first, last = (time_of_day(t, day) for t in (int(history.start_ms[0]), history.end_ms))
        yield f"Shown from {first} to {last}, when it was there."


def _peak(use: SensorUse) -> str:
    bound = bound_in_words(use)
    if use.tokens_min is not None:
        left = f"At the lowest {significant(use.tokens_min)} partitions left to spend"
        return f"{left}, with a quota of {bound}."
    return f"Peak {rate(use.rate_max, use.sensor.quota_type)}, quota {bound}."


def bound_in_words(use: SensorUse) -> str:
    """Return the bound that was in force, or the range where it changed."""
    quota_type = use.sensor.quota_type
    if use.bound_min is None:
        return "none"
    if use.bound_min == use.bound_max:
        return rate(use.bound_min, quota_type)
    return f"{rate(use.bound_min, quota_type)} to {rate(use.bound_max, quota_type)}"
