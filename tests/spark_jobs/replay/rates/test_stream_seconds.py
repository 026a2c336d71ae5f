"""The seconds of a stream: amounts are added as recorded, however rows came."""

from __future__ import annotations

import itertools
from functools import reduce
from operator import add

import pytest

from spark_jobs.replay.rates.stream_tables import StreamSeconds
from tests.spark_jobs.replay.rates.request_logs import opened, request
from tests.spark_jobs.replay.rates.stream_rows_made import stream_rows

# Added from the left 0.1 + 0.2 + 0.3 is another float than 0.3 + 0.2 + 0.1.
AMOUNTS = (0.1, 0.2, 0.3, 1e16, 1.0, -1e16, 0.7, 0.1, 0.2, 0.3)


@pytest.mark.parametrize("cuts", [(), (1,), (5,), (2, 4, 9)])
def test_the_amounts_of_a_second_are_added_as_the_sensor_recorded_them(
    cuts: tuple[int, ...],
) -> None:
    rows = [request(i, 0, amount=amount) for i, amount in enumerate(AMOUNTS)]
    seconds, stream = StreamSeconds(), opened()
    for begin, end in itertools.pairwise([0, *cuts, len(rows)]):
        stream.take(stream_rows(rows[begin:end], stream.codes))
        decided = stream.decide(None)
        assert decided is not None
        assert seconds.take(decided) is None
    found = seconds.rest()
    assert found is not None
    assert found["amount"].tolist() == [reduce(add, AMOUNTS)]
