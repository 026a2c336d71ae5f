"""What the throttles of refused mutations tell of the debt that their bucket was in.

A response says how long it is from its moment until the debt ends
(``AbstractControllerMutationQuota.throttleTime``). Rows are mutations (AMOUNTS) in replayed order,
those of a sensor together; ``request`` is each row's number of ``request_numbers``.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.quota.constants import TIME_BITS
from spark_jobs.quota.mutation_bucket import told_debt_ms
from spark_jobs.replay.sensors.amounts import bools, floats


def says_its_debt(part: pa.RecordBatch, ends_ms: np.ndarray, tolerance_ms: int) -> np.ndarray:
    """Return True for each row whose response's throttle is until ``ends_ms``, when its debt ends.

    As replayed, and within ``tolerance_ms``; such as 1,340 ms of a debt that ends 1,342 ms later.
    """
    names = "response_earliest_ms", "response_latest_ms", "logged_throttle_time_ms"
    earliest_ms, latest_ms, logged_ms = (part[name].to_numpy() for name in names)
    is_in_time = logged_ms >= ends_ms - latest_ms - tolerance_ms
    return np.asarray(is_in_time & (logged_ms <= ends_ms - earliest_ms + tolerance_ms))


def _is_alone(part: pa.RecordBatch, sensor: np.ndarray, request: np.ndarray) -> np.ndarray:
    """Return True for each row whose request no other of its sensor may have come in between."""
    # The sensors come one after the other.
    apart_ms = sensor.astype(np.int64) << TIME_BITS
    first_ms = np.full(request.max(initial=-1) + 1, np.iinfo(np.int64).max)
    last_ms = np.zeros(len(first_ms), np.int64)
    np.minimum.at(first_ms, request, apart_ms + part["earliest_ms"].to_numpy())
    np.maximum.at(last_ms, request, apart_ms + part["latest_ms"].to_numpy())
    order = np.argsort(first_ms)
    met = np.maximum.accumulate(last_ms[order])[:-1] >= first_ms[order][1:]
    is_alone = np.empty(len(order), bool)
    is_alone[order] = ~(np.append(False, met) | np.append(met, False))[: len(order)]
    return np.asarray(is_alone[request])


def either_is_wrong(
    part: pa.RecordBatch,
    sensor: np.ndarray,
    request: np.ndarray,
    is_right: np.ndarray,
    is_told: np.ndarray,
) -> np.ndarray:
    """Return True for each admission that another one, of about that time, may have come after.

    ``is_right`` are the admissions that the rule expects. Of two at once of which the bucket admits
    one, the log does not tell which was the wrong one, but where the next refusal ``is_told``: its
    throttle is that of the debt that the right one left.
    """
    earliest_ms, latest_ms = part["earliest_ms"].to_numpy(), part["latest_ms"].to_numpy()
    found = np.zeros(len(part), bool)
    is_strict, is_refused = bools(part["is_strict"]), ~bools(part["logged_admitted"])
    for row in np.flatnonzero(is_strict & ~is_refused & ~is_right).tolist():
        own = slice(*np.searchsorted(sensor, (sensor[row], sensor[row] + 1)))
        refused = np.flatnonzero(is_refused[row : own.stop])[:1] + row
        if is_told[refused].any():
            continue
        is_near = (earliest_ms[own] <= latest_ms[row]) & (latest_ms[own] >= earliest_ms[row])
        found[row] = (is_near & is_right[own] & (request[own] != request[row])).any()
    return found


def is_amid_debt(part: pa.RecordBatch, request: np.ndarray, tolerance_ms: int) -> np.ndarray:
    """Return True for each topic that was admitted amid a debt, whatever the bucket held.

    A controller takes the topics of a request in their order, and nobody else's in between. The
    throttle is what is left, at the response, of the debt that the last refused topic met
    (``AbstractControllerMutationQuota.throttleTime``): nothing was admitted after that. Of several
    that seem to be, the last one is wrong: where that was refused, the others came before it. So is
    the last one of a request with a throttle and no refusal.
    Topics to create, admitted before it, leave no more debt than their own partitions: 3 of them at
    a quota of 2/s at most 1,500 ms. After a topic that was refused they leave all of it, but for
    what was refilled until the response. Topics are deleted in another order
    (``ControllerApis.deleteTopics``), and a topic that fails for another reason may have been
    charged for its new partitions (``ReplicationControlManager.createPartitions``).
    """
    logged_ms = part["logged_throttle_time_ms"].to_numpy()
    tells = bools(part["is_atomic"]) & bools(part["is_strict"]) & (logged_ms > tolerance_ms)
    tells &= ~bools(part["has_request_bound"])
    tells &= ~bools(pc.equal(part["api_name"], "DELETE_TOPICS"))
    index, admitted = part["resource_index"].to_numpy(), bools(part["logged_admitted"])
    requests = request.max(initial=-1) + 1
    first, last = np.full(requests, np.iinfo(np.int64).max), np.full(requests, -1)
    np.minimum.at(first, request[~admitted], index[~admitted])
    np.maximum.at(last, request[~admitted], index[~admitted])
    latest = np.full(requests, -1)
    np.maximum.at(latest, request, index)
    charged_ms = _charged_until(part, request, last, index)
    refilled_ms = (part["response_latest_ms"].to_numpy() - part["earliest_ms"].to_numpy()).clip(0)
    is_more = bools(pc.equal(part["api_name"], "CREATE_TOPICS"))
    is_more &= logged_ms > charged_ms + tolerance_ms
    is_less = (index > first[request]) & (logged_ms < charged_ms - refilled_ms - tolerance_ms)
    is_impossible = np.where(index > last[request], index == latest[request], is_more | is_less)
    return np.asarray(tells & admitted & is_impossible)


def _charged_until(
    part: pa.RecordBatch, request: np.ndarray, last: np.ndarray, index: np.ndarray
) -> np.ndarray:
    """Return the debt (ms) that each topic and those after it leave to the ``last`` refused one.

    Such as 1,500 ms of 3 partitions at 2/s. ``index`` is a topic's place in its request. NaN where
    partitions or the quota are unknown.
    """
    own_ms = 1000.0 * floats(part["amount"]) / part["bound"].to_numpy()
    own_ms[~bools(part["logged_admitted"]) | (index > last[request])] = 0.0
    total_ms = np.zeros(len(last))
    found = np.empty(len(index))
    for row in np.lexsort((-index, request)).tolist():
        total_ms[request[row]] += own_ms[row]
        found[row] = total_ms[request[row]]
    return found


def told_tokens(
    part: pa.RecordBatch, sensor: np.ndarray, request: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the least and most tokens that each row's throttle tells of; NaN: it tells nothing.

    The response says when the debt ends that a request's last topic was refused for. Of requests
    at once it is not known whose charges that debt has.
    """
    names = (
        "recorded_at_ms",
        "response_earliest_ms",
        "response_latest_ms",
        "logged_throttle_time_ms",
    )
    at_ms, earliest_ms, latest_ms, logged_ms = (part[name].to_numpy() for name in names)
    is_last = np.append(request[1:] != request[:-1], True)[: len(request)]
    tells = is_last & bools(part["is_atomic"]) & bools(part["is_strict"]) & (logged_ms > 0)
    tells &= ~bools(part["logged_admitted"]) & ~bools(part["has_request_bound"])
    tells &= _is_alone(part, sensor, request)
    per_ms = np.where(tells, part["bound"].to_numpy() / 1000.0, np.nan)
    from_ms, until_ms = told_debt_ms(logged_ms, earliest_ms, latest_ms)
    return (at_ms - until_ms) * per_ms, (at_ms - from_ms) * per_ms
