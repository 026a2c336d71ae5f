"""What explains the stretches of a day that the configured quotas do not.

Tried are values that a broker may have held instead, and other ways in which it may have counted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.judge.causes.counting_trials import (
    CountingTrial,
    counted_otherwise,
    counting_trial,
    is_worth_a_trial,
)
from spark_jobs.judge.causes.hypotheses import (
    Explanation,
    OtherQuota,
    OtherReplay,
    explain_stretch,
    explained_since_loss,
)
from spark_jobs.judge.causes.other_replays import (
    connections_apart,
    lost_at,
    lost_state,
    other_profiles,
)
from spark_jobs.judge.causes.sensor_decisions import (
    SensorDecisions,
    history_of,
)
from spark_jobs.judge.causes.stretch_findings import ExplainedStretch, explained_stretch
from spark_jobs.judge.causes.stretches import (
    find_stretches,
    losses_before,
    losses_between,
)
from spark_jobs.judge.causes.throttle_steps import explain_by_steps
from spark_jobs.judge.decision_counts import decisions_by_sensor, sensors_at_a_time
from spark_jobs.judge.log_span import brokers_of
from spark_jobs.quota.codes import (
    BANDWIDTH_TYPES,
    OTHER_LEVEL,
    PREVIOUS_QUOTA,
    STATE_LOST,
    WRONG_VERDICTS,
    QuotaType,
)
from spark_jobs.quota.sensor_key import SENSOR_COLUMNS, SensorKey
from spark_jobs.quota.states import remembered_ms
from spark_jobs.replay.broker_rules import NEWEST_PROFILE, rules_of
from spark_jobs.replay.day_edges import known_from_ms, read_lost_requests
from spark_jobs.replay.sensors.aligned_mutations import changes
from spark_jobs.replay.sensors.amounts import bools, floats
from spark_jobs.replay.sensors.lost_requests import LostRequests
from spark_jobs.replay.sensors.resolution_table import ClientIndex, ResolutionTable
from spark_jobs.replay.sensors.sensor_states import BrokerRules
from spark_jobs.replay.unknown_brokers import unknown_brokers
from spark_jobs.replay.verdicts.verdicts import UNLOGGED_CHANGE
from spark_jobs.resolve.resolve_quotas import read_timeline
from spark_jobs.resolve.timeline.default_quota_callback import candidate_entities, quota_level
from spark_jobs.resolve.timeline.resolution import QuotaInterval
from spark_jobs.settings import JudgeSettings
from spark_jobs.warehouse.read import read_table, sensor_filter
from spark_jobs.warehouse.scope import RunScope

HISTORY_COLUMNS = (
    *SENSOR_COLUMNS, "sensor_epoch", "sensor_seq", "recorded_at_ms", "log_time_ms", "connection",
    "user", "client_id", "quota_level", "amount", "is_unrecorded", "answered_bytes", "bound",
    "rate", "window_size_ms", "logged_throttle_time_ms", "verdict", "reason",
)  # fmt: skip


def explain_stretches(scope: RunScope, settings: JudgeSettings) -> list[ExplainedStretch]:
    """Return the explained stretches in which many throttles are not the configured bound's.

    Only sensors with enough such decisions are looked at; without one nothing more is read. A
    sensor that was counted by another rate all day has that one stretch alone. Where a broker lost
    the state of one sensor, its others are tried with that moment.
    """
    suspects = _suspects(scope, settings)
    if not suspects:
        return []
    day = _Day.of(scope, settings)
    found: list[ExplainedStretch] = []
    trials: list[CountingTrial] = []
    for decisions in _decisions_of(scope, suspects):
        stretches, tried = day.explain(decisions)
        found += stretches
        trials += tried
    losses = _losses(found)
    told = {one.key for one in found}
    others = {k: n for k, n in suspects.items() if k.broker_id in losses and k not in told}
    for decisions in _decisions_of(scope, others):
        found += day.explain(decisions, losses)[0]
    otherwise = counted_otherwise(trials, found)
    return [one for one in found if one.key not in otherwise] + [*otherwise.values()]


def _decisions_of(scope: RunScope, suspects: Mapping[SensorKey, int]) -> Iterator[pa.RecordBatch]:
    """Yield the decisions of each of these sensors (HISTORY_COLUMNS), in recording order."""
    for sensors in sensors_at_a_time(suspects):
        table = read_table(scope, "decisions", HISTORY_COLUMNS, sensor_filter(sensors))
        yield from sensors_in(table)


def _apart(
    history: SensorDecisions, decisions: pa.RecordBatch, rules: BrokerRules
) -> list[OtherReplay]:
    """Return the history with a connection counted apart, for each; none where nothing deviates."""
    if not is_worth_a_trial(history):
        return []
    connections = decisions["connection"].dictionary_encode().dictionary.to_pylist()
    return connections_apart(history, connections, rules)


Losses = Mapping[int, Sequence[tuple[int, int]]]
"""By broker: between which of a sensor's requests (ms) its state was lost."""


def _losses(found: Iterable[ExplainedStretch]) -> Losses:
    losses = defaultdict(list)
    for one in found:
        if one.lost_between_ms is not None:
            losses[one.key.broker_id].append(one.lost_between_ms)
    return losses


@dataclass(frozen=True, slots=True)
class _Day:
    """What the stretches of one day are explained with."""

    settings: JudgeSettings
    resolutions: ResolutionTable
    lost: LostRequests
    rules: dict[int, BrokerRules]
    unknown: frozenset[int]  # brokers that are newer than what is known
    changes: list[dict[str, object]]

    @classmethod
    def of(cls, scope: RunScope, settings: JudgeSettings) -> _Day:
        logs = brokers_of(scope)
        begins_ms = {log.broker_id: log.first_ms for log in logs if log.first_ms is not None}
        known_ms = known_from_ms(scope, begins_ms)
        resolutions = ResolutionTable(read_timeline(scope), known_ms)
        unknown = [log.broker_id for log in logs if not log.rate_profile]
        return cls(
            settings=settings,
            resolutions=resolutions,
            lost=read_lost_requests(scope, resolutions),
            rules=rules_of(scope, dict.fromkeys(unknown, NEWEST_PROFILE)),
            unknown=unknown_brokers(scope),
            changes=read_table(scope, "quota_changes").to_pylist(),
        )

    def explain(
        self, decisions: pa.RecordBatch, losses: Losses | None = None
    ) -> tuple[list[ExplainedStretch], list[CountingTrial]]:
        """Return the explained stretches of one sensor's ``decisions``, and trials of other counts.

        With ``losses`` only those that a known loss of its broker explains, and no trials.
        """
        key = SensorKey(*(decisions[name][0].as_py() for name in SENSOR_COLUMNS))
        if key.broker_id in self.unknown:
            return [], []
        rules, change_ms = self.rules[key.broker_id], self.settings.change_ms
        history = self._history(key, decisions)
        profiles = other_profiles(history, rules)
        known = None if losses is None else losses[key.broker_id]
        tried = [] if known is not None else [*profiles, *_apart(history, decisions, rules)]
        trials = [counting_trial(key, str(rules.profile), history, r, change_ms) for r in tried]
        stretches = [
            explained_stretch(key, history, one, change_ms, lost_between_ms)
            for one, lost_between_ms in self._explained(key, history, decisions, profiles, known)
        ]
        return [one for one in stretches if one is not None], trials

    def _history(self, key: SensorKey, decisions: pa.RecordBatch) -> SensorDecisions:
        rules = self.rules[key.broker_id]
        remembered = remembered_ms(*rules.of_type(key.quota_type))
        warm_up_ms = max(self.settings.warm_up_windows * 1000, remembered)
        return sensor_decisions(decisions, self.resolutions, self.lost, warm_up_ms, rules.window_ms)

    def _explained(
        self,
        key: SensorKey,
        history: SensorDecisions,
        decisions: pa.RecordBatch,
        profiles: Sequence[OtherReplay],
        known: Sequence[tuple[int, int]] | None,
    ) -> Iterator[tuple[Explanation, tuple[int, int] | None]]:
        """Yield what explains each stretch; of a lost state, between which times it was lost."""
        rules, tolerance_ms = self.rules[key.broker_id], self.settings.tolerance_ms
        memory_ms = remembered_ms(rules.samples, rules.window_ms)
        min_decisions = self.settings.finding_min_decisions
        told_until = 0
        for found in find_stretches(history, tolerance_ms, min_decisions):
            losses = (
                losses_before(history, found, tolerance_ms, memory_ms)
                if known is None
                else losses_between(history, found, known)
            )
            # What deviates before another sensor's loss says nothing of that.
            stretch = found.since(losses.start) if losses else found
            first = lost_at(history, stretch, rules, losses)
            if first is not None:
                stretch = stretch.since(first)
            lost = [] if first is None else [lost_state(history, stretch, rules, first)]
            rows = decisions.slice(stretch.first, stretch.end - stretch.first)
            at_ms = history.recorded_at_ms[stretch.rows]
            quotas = other_quotas(self.changes, rows, int(at_ms[0]), int(at_ms[-1]))
            explanation = explain_stretch(
                history,
                stretch,
                quotas,
                [*profiles, *lost],
                is_loss_known=known is not None,
                sample_ms=rules.window_ms,
            )
            if explanation is None and known is None and stretch.first >= told_until:
                explanation = explain_by_steps(history, stretch, quotas)
                told_until = explanation.stretch.end if explanation else told_until
            if explanation is None:
                continue
            is_lost = explanation.winner.hypothesis == STATE_LOST
            if is_lost and first is not None:
                before_ms, since_ms = history.recorded_at_ms[first - 1 : first + 1].tolist()
                for own in (*explained_since_loss(history, lost[0], explanation), explanation):
                    yield own, (before_ms, since_ms)
            elif known is None:
                yield explanation, None


def _suspects(scope: RunScope, settings: JudgeSettings) -> dict[SensorKey, int]:
    """Return the sensors to look at, and how many decisions each has."""
    logged, ours = pc.field("logged_throttle_time_ms"), pc.field("replayed_throttle_time_ms")
    expected = pc.coalesce(ours, pa.scalar(0, pa.int32()))
    tolerance = pa.scalar(settings.tolerance_ms, pa.int32())
    # An un-recorded amount is recovered from the throttle, and fits any bound.
    is_off = (pc.abs(pc.subtract(logged, expected)) > tolerance) | pc.field("is_unrecorded")
    is_off = is_off | ((logged > 0) != (expected > 0))
    is_bandwidth = pc.field("quota_type").isin(BANDWIDTH_TYPES)
    off = decisions_by_sensor(scope, is_bandwidth & is_off)
    found = {key for key, n in off.items() if n >= settings.finding_min_decisions}
    if not found:
        return {}
    return {key: n for key, n in decisions_by_sensor(scope, is_bandwidth).items() if key in found}


def sensor_decisions(
    decisions: pa.RecordBatch,
    resolutions: ResolutionTable,
    lost: LostRequests,
    warm_up_ms: int,
    request_throttle_max_ms: int,
) -> SensorDecisions:
    """Return the history of one sensor's ``decisions`` (HISTORY_COLUMNS, in recording order).

    For ``warm_up_ms`` after the log began, or the quota was set that sent its clients to it, or
    after the first amount of a sensor that began anew, the state is not known: the rate is NaN, and
    such decisions are no evidence. Neither are those that an unlogged change explains.
    """
    at_ms = decisions["recorded_at_ms"].to_numpy()
    key = SensorKey(*(decisions[name][0].as_py() for name in SENSOR_COLUMNS))
    _, lost_amount_max = lost.of_sensors(
        key.broker_id,
        key.quota_type,
        [key.tags],
        np.zeros(len(at_ms), int),
        at_ms,
        at_ms,
    )
    window_size_ms = pc.fill_null(decisions["window_size_ms"], 0).to_numpy()
    rate = floats(decisions["rate"])
    is_known = _known_for_ms(decisions, resolutions) >= warm_up_ms
    is_known &= ~bools(pc.fill_null(pc.equal(decisions["reason"], UNLOGGED_CHANGE), False))
    has_request_bound = resolutions.has_request_bound(ClientIndex.of(decisions), at_ms)
    return history_of(
        sensor_epoch=decisions["sensor_epoch"].to_numpy(),
        recorded_at_ms=at_ms,
        log_time_ms=decisions["log_time_ms"].to_numpy(),
        connection=decisions["connection"].dictionary_encode().indices.to_numpy(),
        amount=floats(decisions["amount"]),
        is_unrecorded=bools(decisions["is_unrecorded"]),
        answered=floats(decisions["answered_bytes"]),
        bound=floats(decisions["bound"]),
        rate=np.where((window_size_ms > 0) & is_known, rate, np.nan),
        window_size_ms=np.maximum(window_size_ms, 1),
        logged_ms=decisions["logged_throttle_time_ms"].to_numpy(),
        is_wrong=bools(pc.is_in(decisions["verdict"], pa.array(WRONG_VERDICTS))),
        request_throttle_max_ms=np.where(has_request_bound, request_throttle_max_ms, 0),
        lost_amount_max=lost_amount_max,
    ).with_attempts()


def _known_for_ms(decisions: pa.RecordBatch, resolutions: ResolutionTable) -> np.ndarray:
    at_ms, epoch = decisions["recorded_at_ms"].to_numpy(), decisions["sensor_epoch"].to_numpy()
    own = resolutions.resolve(
        QuotaType(decisions["quota_type"][0].as_py()), ClientIndex.of(decisions), at_ms
    )
    starts = np.searchsorted(epoch, epoch)
    is_begun = decisions["sensor_seq"].to_numpy()[starts] == 0
    if resolutions.log_start_ms(decisions["broker_id"][0].as_py()):
        # Its first request would be in the log, had it been sent since that began.
        is_begun &= epoch > 0
    known_from_ms = np.maximum(np.where(is_begun, at_ms[starts], 0), own.known_from_ms)
    return np.asarray(at_ms - known_from_ms)


def other_quotas(
    changes: Iterable[Mapping[str, Any]],
    decisions: pa.RecordBatch,
    from_ms: int,
    until_ms: int,
) -> list[OtherQuota]:
    """Return the values that may have been in force for ``decisions`` instead of the resolved one.

    ``changes`` are rows of ``quota_changes``; ``decisions`` those of a stretch, which lasted from
    ``from_ms`` to ``until_ms``. Earlier values of the entity whose quota was in force are previous
    ones, and where none was in force, those of every entity that matches; of the others, what
    held then.
    """
    first = decisions.slice(0, 1).to_pylist()[0]
    clients = {(c["user"], c["client_id"] or "") for c in _distinct_clients(decisions)}
    matching = {entity for client in clients for entity in candidate_entities(*client)}
    found: dict[tuple[str, float], OtherQuota] = {}
    for row in changes:
        entity = (row["quota_user"], row["quota_client_id"])
        interval = QuotaInterval.of_row(row)
        if row["quota_type"] != first["quota_type"] or entity not in matching:
            continue
        if not interval.applies_to(first["broker_id"]) or interval.valid_from_ms > from_ms:
            continue
        level = quota_level(entity)
        is_own = first["quota_level"] in (None, level)
        # A change may lie some ms beside the first decision that it bound.
        is_over = interval.valid_until_ms <= until_ms
        if is_own and is_over and interval.bound != first["bound"]:
            hypothesis = PREVIOUS_QUOTA
        elif not is_own and not is_over:
            hypothesis = OTHER_LEVEL
        else:
            continue
        quota = OtherQuota(
            hypothesis, interval.bound, level, interval.valid_from_ms, row["valid_until_ms"]
        )
        found[hypothesis, interval.bound] = quota
    return list(found.values())


def _distinct_clients(decisions: pa.RecordBatch) -> list[dict[str, Any]]:
    table = pa.Table.from_batches([decisions.select(["user", "client_id"])])
    clients: list[dict[str, Any]] = table.group_by(["user", "client_id"]).aggregate([]).to_pylist()
    return clients


def sensors_in(decisions: pa.Table) -> Sequence[pa.RecordBatch]:
    """Return ``decisions`` (HISTORY_COLUMNS) as one batch per sensor, in recording order."""
    order = [(name, "ascending") for name in (*SENSOR_COLUMNS, "sensor_epoch", "sensor_seq")]
    return [
        batch.slice(start, stop - start)
        for batch in decisions.sort_by(order).combine_chunks().to_batches()
        for start, stop in pairwise(
            [*np.flatnonzero(changes(batch, SENSOR_COLUMNS)).tolist(), len(batch)]
        )
    ]
