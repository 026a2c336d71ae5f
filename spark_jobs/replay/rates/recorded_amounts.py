"""A chunk of one broker's requests → the amounts that it recorded on its quotas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.quota.apis import APIS, counted_by
from spark_jobs.quota.codes import QuotaType
from spark_jobs.quota.constants import CHANGE_LATEST_MS
from spark_jobs.quota.repeated import repeated
from spark_jobs.quota.request_time import (
    PERCENT_PER_US,
    likely_network_time_us,
    network_time_max_us,
    record_interval_ms,
)
from spark_jobs.replay.alignment.events import likely_from_ms
from spark_jobs.replay.rates.sensor_codes import CodedRows, SensorCodes
from spark_jobs.replay.rates.stream_rows import LINE_COLUMNS, StreamRows
from spark_jobs.replay.rates.unsized_amounts import UnsizedAmounts
from spark_jobs.replay.sensors.amounts import bools, encoded, floats, is_any_of
from spark_jobs.replay.sensors.line_lags import NO_STOPS, LineLags, Stops
from spark_jobs.replay.sensors.lost_requests import LostRequests
from spark_jobs.replay.sensors.resolution_table import ClientIndex, LineTimes, ResolutionTable
from spark_jobs.resolve.broker_log import NOT_STAMPED, BrokerLog

PRODUCE, FETCH, SHARE_FETCH = 0, 1, 78
FETCHES = counted_by("fetch")
API_KEYS = {
    QuotaType.PRODUCER_BYTE_RATE: counted_by("produce"),
    QuotaType.CONSUMER_BYTE_RATE: FETCHES,
}
"""The requests whose bytes each quota counts (``KafkaApis``, ClientQuotaManager)."""
NAME_COLUMNS = ("connection", "api_name", "user", "client_id", "listener", "source_file")
"""Columns of requests that come as dictionaries."""
REQUEST_COLUMNS = (
    *LINE_COLUMNS,
    "api_key", "listener", "is_forwarded", "is_replica", "acks", "throttle_time_ms",
    "recorded_estimate_us", "recorded_earliest_ms", "recorded_latest_ms", "handler_time_us",
    "remote_time_us", "request_bytes", "response_bytes", "fetch_max_bytes",
)  # fmt: skip
TIME_COLUMNS = ("response_queue_time_us", "send_time_us")
"""What the request quota asks for besides."""
ANSWER_COLUMNS = ("topics", "error_codes")
"""What a fetch was given: asked of throttled ones and those around them."""
_NEVER_MS = np.iinfo(np.int64).max
EXEMPT_APIS = frozenset(name for api in APIS.values() if api.is_exempt for name in api.names)
"""Requests between brokers are exempt from the request quota (``KafkaApis``:
authorizeClusterOperation, then sendResponseExemptThrottle)."""


class RecordedAmounts:
    """Turns requests of one broker into the rows of its streams."""

    def __init__(
        self,
        broker_id: int,
        resolutions: ResolutionTable,
        codes: Mapping[QuotaType, SensorCodes],
        controller_listeners: frozenset[str],
        broker_log: BrokerLog,
        lost: LostRequests,
        read_us: float = 0.0,
        stops: Stops = NO_STOPS,
    ) -> None:
        """``codes`` has the quota types whose amounts are asked for.

        ``read_us`` is the longest read of a small request (``request_time.READ_PERCENTILE``),
        ``stops`` when the broker's process was stopped.
        """
        self._read_us = read_us
        self._broker_id, self._resolutions, self._codes = broker_id, resolutions, codes
        self._controller_listeners = controller_listeners
        self._broker_log, self._lost = broker_log, lost
        self._unsized = UnsizedAmounts()
        self._stops, self._lags = stops, LineLags(stops)
        self._met_by_controller = _ControllersClients()

    def rows(self, requests: pa.Table, order: np.ndarray) -> dict[QuotaType, StreamRows]:
        """Return the amounts of those of ``requests`` that ``order`` names, in its order.

        They have REQUEST_COLUMNS, TIME_COLUMNS where request times are asked for, and
        ANSWER_COLUMNS unless no fetch of the broker was throttled; the order is that of their
        estimates.
        """
        is_of_controller = bools(requests["is_forwarded"])
        is_of_controller |= is_any_of(requests["listener"], self._controller_listeners)
        wanted = ~bools(requests["is_replica"]) & ~is_of_controller
        lags_ms = self._lags.of(requests, order)
        in_order = order[wanted[order]]
        if QuotaType.REQUEST_PERCENTAGE in self._codes:
            self._met_by_controller.take(requests, order[is_of_controller[order]])
        index = ClientIndex.of_broker(
            self._broker_id, encoded(requests["user"]), encoded(requests["client_id"])
        )
        return {
            quota_type: self._of_type(
                quota_type,
                codes,
                requests,
                lags_ms,
                index,
                in_order[_is_counted(quota_type, requests, in_order)],
            )
            for quota_type, codes in self._codes.items()
        }

    def _of_type(
        self,
        quota_type: QuotaType,
        codes: SensorCodes,
        requests: pa.Table,
        lags_ms: np.ndarray,
        index: ClientIndex,
        rows: np.ndarray,
    ) -> StreamRows:
        index = index.take(rows)
        at_ms = requests["recorded_estimate_us"].to_numpy()[rows] // 1000
        is_produce = quota_type == QuotaType.PRODUCER_BYTE_RATE
        line = _line_times(requests, rows) if is_produce else None
        resolved = codes.resolve(self._resolutions, quota_type, index, at_ms, line)
        if not resolved.is_enabled.all():
            kept = np.flatnonzero(resolved.is_enabled)
            rows, at_ms = rows[kept], at_ms[kept]
            index, resolved = index.take(kept), resolved.take(kept)

        def own(name: str) -> np.ndarray:
            return np.asarray(requests[name].to_numpy()[rows])

        n = len(rows)
        earliest_ms, latest_ms = own("recorded_earliest_ms"), own("recorded_latest_ms")
        logged_ms = own("throttle_time_ms").astype(np.int64)
        epochs = self._broker_log.epochs(repeated(self._broker_id, n), latest_ms)
        is_fetch = quota_type == QuotaType.CONSUMER_BYTE_RATE
        request_bytes = floats(requests["request_bytes"])[rows]
        # A throttled fetch was answered with nothing: what it tried to read is not in the log.
        amount = (
            np.where(logged_ms > 0, np.nan, floats(requests["response_bytes"])[rows])
            if is_fetch
            else request_bytes
        )
        known_for_ms = epochs.known_for_ms(at_ms, resolved.known_from_ms)
        if is_fetch:
            is_unsized = np.isnan(amount) & (logged_ms == 0)
            known_for_ms = self._unsized.known_for_ms(
                known_for_ms, resolved.sensor, at_ms, is_unsized
            )
        unlogged_amount_max = unlogged_likely = repeated(np.nan, n)
        short_send_us = repeated(np.int64(0), n)
        recorded_at_ms, recorded_ms = at_ms, (earliest_ms, latest_ms)
        if quota_type == QuotaType.REQUEST_PERCENTAGE:
            # How slowly a process reads and writes that has just begun is in no field.
            known_for_ms = at_ms - np.maximum(resolved.joined_ms, epochs.restart_ms)
            is_met = self._met_by_controller.has_met(requests, rows, at_ms)
            known_for_ms = np.where(is_met, 0, known_for_ms)
            # Percent of one second: nanoseconds times 1e-7 (ClientRequestQuotaManager).
            amount = own("handler_time_us") * 1000 * 1e-7
            recorded_ms = _request_times_ms(requests, rows)
            recorded_at_ms = np.clip(at_ms, *recorded_ms)
            sent_us = own("send_time_us")
            later_us = network_time_max_us(sent_us, request_bytes, self._read_us)
            unlogged_amount_max = later_us * PERCENT_PER_US
            response_bytes = floats(requests["response_bytes"])[rows]
            likely_us, short_send_us = likely_network_time_us(
                sent_us, request_bytes, response_bytes, self._read_us
            )
            unlogged_likely = likely_us * PERCENT_PER_US
        on_sensors = self._broker_id, quota_type, codes.names, resolved.sensor
        stamp_ms = self._broker_log.stamps_ms(
            *on_sensors, earliest_ms, latest_ms, own("recorded_estimate_us"), logged_ms
        )
        lost_requests, lost_amount_max = self._lost.of_sensors(*on_sensors, earliest_ms, latest_ms)
        has_answers = is_fetch and set(ANSWER_COLUMNS) <= set(requests.column_names)
        has_records, has_errors = (
            _answers(requests, rows) if has_answers else (repeated(False, n), repeated(False, n))
        )
        return StreamRows(
            lines=requests.select(list(LINE_COLUMNS)),
            line=rows,
            log_time_ms=own("log_time_ms"),
            sensor=resolved.sensor,
            level=resolved.level,
            restart_ms=epochs.restart_ms,
            at_ms=recorded_at_ms,
            earliest_ms=recorded_ms[0],
            latest_ms=recorded_ms[1],
            likely_from_ms=likely_from_ms(
                earliest_ms, at_ms, own("handler_time_us"), own("remote_time_us"),
                floats(requests["acks"])[rows],
            ),
            # A stamp is later than the record, by as much as the line is later than its phases say.
            line_lag_max_ms=lags_ms[rows]
            + np.where(stamp_ms == NOT_STAMPED, 0, np.maximum(stamp_ms - 1 - earliest_ms, 0)),
            stamp_ms=stamp_ms,
            amount=amount,
            bound=resolved.bound,
            logged_ms=logged_ms,
            known_for_ms=known_for_ms,
            change_distance_ms=_change_distance_ms(
                at_ms, self._stops.running_ms(resolved.changed_at_ms), resolved.changes_at_ms
            ),
            bound_beside=_bound_beside(at_ms, resolved),
            has_request_bound=self._resolutions.has_request_bound(index, at_ms),
            lost_requests=lost_requests,
            joined_ms=resolved.joined_ms,
            may_precede=recorded_ms[0] - lags_ms[rows] < resolved.joined_by_ms,
            request_bytes=request_bytes,
            fetch_max_bytes=(
                floats(requests["fetch_max_bytes"])[rows] if is_fetch else repeated(np.nan, n)
            ),
            has_records=has_records,
            has_errors=has_errors,
            unlogged_amount_max=unlogged_amount_max,
            unlogged_likely=unlogged_likely,
            short_send_us=short_send_us,
            lost_amount_max=lost_amount_max,
        )  # fmt: skip


def _line_times(requests: pa.Table, rows: np.ndarray) -> LineTimes:
    """Return the times (ms) that the lines of ``rows`` admit, and whether each was throttled."""
    names = ("recorded_earliest_ms", "recorded_latest_ms", "throttle_time_ms")
    earliest_ms, latest_ms, logged_ms = (requests[name].to_numpy()[rows] for name in names)
    return LineTimes(earliest_ms, latest_ms, logged_ms > 0)


def _change_distance_ms(
    at_ms: np.ndarray, changed_at_ms: np.ndarray, changes_at_ms: np.ndarray
) -> np.ndarray:
    """Return the distance (ms) of each request from the nearest change of its quota.

    Such as 3,000 ms for one recorded 3 s after the last change and a minute before the next. A
    change that came while the process was stopped is as of when it ran on: the first requests then
    may have been recorded before the stop, and their lines were written after it.
    """
    since_ms = np.maximum(at_ms - changed_at_ms, 0)
    return np.asarray(np.minimum(since_ms, changes_at_ms - at_ms))


def _bound_beside(at_ms: np.ndarray, resolved: CodedRows) -> np.ndarray:
    """Return the bound on the other side of the nearest change; NaN: none, or more than one is.

    Such as 1,000.0 for a request recorded half a second before that becomes 2,000.0.
    """
    since_ms, left_ms = at_ms - resolved.changed_at_ms, resolved.changes_at_ms - at_ms
    beside = np.where(since_ms <= left_ms, resolved.bound_before, resolved.bound_after)
    return np.where(np.maximum(since_ms, left_ms) < CHANGE_LATEST_MS, np.nan, beside)


class _ControllersClients:
    """Whose requests the controller of a combined node has met.

    It counts their time where the broker does: both keep it in one registry of sensors, under
    the same names (``SharedServer``, ``ClientQuotaManager.getQuotaSensorName``). What a sensor
    holds then is not known.
    """

    def __init__(self) -> None:
        self._since_ms: dict[str, int] = {}

    def take(self, requests: pa.Table, rows: np.ndarray) -> None:
        """Take the controller's requests: ``rows`` that follow those taken before."""
        named = encoded(requests["user"])
        at_ms = requests["recorded_estimate_us"].to_numpy()[rows] // 1000
        codes, firsts = np.unique(named.indices.to_numpy()[rows], return_index=True)
        users = named.dictionary.take(pa.array(codes)).to_pylist()
        for user, first in zip(users, firsts.tolist(), strict=True):
            self._since_ms.setdefault(user, int(at_ms[first]))

    def has_met(self, requests: pa.Table, rows: np.ndarray, at_ms: np.ndarray) -> np.ndarray:
        """Return True for each of ``rows`` whose user the controller had met by then."""
        if not self._since_ms:
            return np.zeros(len(rows), bool)
        named = encoded(requests["user"])
        since_ms = np.array(
            [self._since_ms.get(user, _NEVER_MS) for user in named.dictionary.to_pylist()], np.int64
        )
        return np.asarray(at_ms >= since_ms[named.indices.to_numpy()[rows]])


def _is_counted(quota_type: QuotaType, requests: pa.Table, rows: np.ndarray) -> np.ndarray:
    """Return True for each of ``rows`` that is a request the quota counts."""
    api_key = requests["api_key"].to_numpy()[rows]
    if quota_type in API_KEYS:
        return _is_in(api_key, API_KEYS[quota_type])
    without_response = (api_key == PRODUCE) & (floats(requests["acks"])[rows] == 0)
    is_exempt = is_any_of(requests["api_name"], EXEMPT_APIS)[rows]
    return np.asarray(~is_exempt & ~without_response)


def _request_times_ms(requests: pa.Table, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first and last millisecond in which the request quota counted each request."""
    names = ("log_time_ms", "remote_time_us", "response_queue_time_us", "send_time_us")
    logged_ms, remote_us, queued_us, sent_us = (requests[n].to_numpy()[rows] for n in names)
    acks = floats(requests["acks"])[rows]
    in_handler = (acks == 0) | (acks == 1)
    return record_interval_ms(logged_ms, remote_us, queued_us, sent_us, in_handler)


def _answers(requests: pa.Table, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return two masks: the fetches that got records, and those with a partition not served."""
    n = len(requests)
    has_records, has_errors = np.zeros(n, bool), np.zeros(n, bool)
    topics = requests["topics"].combine_chunks()
    with_data = pc.fill_null(pc.greater(topics.flatten().field("records_bytes"), 0), False)
    has_records[pc.list_parent_indices(topics).filter(with_data).to_numpy()] = True
    codes = requests["error_codes"].combine_chunks()
    with_error = pc.fill_null(pc.not_equal(codes.flatten(), 0), False)
    has_errors[pc.list_parent_indices(codes).filter(with_error).to_numpy()] = True
    return has_records[rows], has_errors[rows]


def _is_in(values: np.ndarray, wanted: Sequence[int]) -> np.ndarray:
    """Return True for each value that is in ``wanted``, in the time of a comparison with each."""
    return np.asarray(np.logical_or.reduce([values == one for one in wanted]))


def unified(tables: Sequence[pa.Table]) -> pa.Table:
    """Return the rows of ``tables`` one after the other, each column in one piece."""
    return pa.concat_tables(tables).unify_dictionaries().combine_chunks()
