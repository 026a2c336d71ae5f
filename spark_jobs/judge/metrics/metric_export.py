"""What Prometheus' HTTP API answered, saved to a file: series of samples with their labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
import numpy as np
import numpy.typing as npt

from spark_jobs.errors import BadInputError

_EXPECTED = (
    "the JSON that Prometheus answers to /api/v1/query of a range, as "
    "kafka_server_quota_byte_rate[1d], or to /api/v1/query_range"
)


@dataclass(frozen=True, slots=True)
class MetricSeries:
    """Samples of one metric with one set of labels, in their order; times in epoch ms."""

    labels: Mapping[str, str]
    at_ms: npt.NDArray[np.int64]
    values: npt.NDArray[np.float64]

    @property
    def name(self) -> str:
        """Return the metric's name."""
        return self.labels.get("__name__", "")

    @property
    def is_resampled(self) -> bool:
        """Return True if the times are a query's, on whole seconds, and no scrape's.

        A target is scraped at its own offset within the second; a range query has its own times,
        and gives what was scraped last before each.
        """
        return bool((self.at_ms % 1000 == 0).all())


class _Result(msgspec.Struct):
    metric: dict[str, str]
    values: list[tuple[float, str]] = []


class _Data(msgspec.Struct):
    resultType: str
    result: list[_Result] = []


class _Answer(msgspec.Struct):
    status: str
    data: _Data | None = None
    error: str = ""


def read_export(text: str | bytes, where: str) -> tuple[MetricSeries, ...]:
    """Return the series of an export; ``where`` is what errors call it.

    Raises BadInputError where it is no such JSON, an error that Prometheus answered, or holds one
    moment only.

    Source: Prometheus' documentation, HTTP API, expression query result formats.
    """
    try:
        answer = msgspec.json.decode(text, type=_Answer)
        if answer.status == "success" and answer.data and answer.data.resultType == "matrix":
            return tuple(_series(result, where) for result in answer.data.result)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadInputError(f"{where}: {error}. Expected {_EXPECTED}.") from error
    if answer.error:
        raise BadInputError(f"{where} is an error of Prometheus, {answer.error!r}. Ask it again.")
    kind = answer.data.resultType if answer.data else "nothing"
    raise BadInputError(f"{where} holds a {kind!r}, not a 'matrix'. Expected {_EXPECTED}.")


def _series(result: _Result, where: str) -> MetricSeries:
    try:
        values = np.array([float(value) for _, value in result.values], np.float64)
    except ValueError as error:
        raise BadInputError(f"{where}: {error}. Expected numbers, NaN, +Inf or -Inf.") from error
    # Prometheus keeps whole milliseconds, and prints seconds.
    seconds = np.array([at for at, _ in result.values], np.float64)
    return MetricSeries(result.metric, np.rint(seconds * 1000).astype(np.int64), values)
