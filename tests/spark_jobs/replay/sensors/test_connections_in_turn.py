"""What one connection sent is recorded in the order of its lines, whatever the estimates say."""

from __future__ import annotations

import numpy as np
import pytest

from spark_jobs.replay.sensors.amounts import connections_in_turn


@pytest.mark.parametrize(
    ("connection", "source_line", "is_in_turn"),
    [
        ([1, 1, 1], [5, 6, 7], [True, True, True]),
        ([1, 2, 1, 2], [5, 3, 6, 4], [True, True, True, True]),
        ([1, 1, 2, 1], [5, 7, 1, 6], [True, True, True, False]),
        ([], [], []),
    ],
)
def test_a_request_out_of_turn_has_a_connection_of_its_own(
    connection: list[int], source_line: list[int], is_in_turn: list[bool]
) -> None:
    found = connections_in_turn(
        np.array(connection, np.int32), np.array(source_line, np.int64)
    ).tolist()
    for own, was, in_turn in zip(found, connection, is_in_turn, strict=True):
        assert own == was if in_turn else own < 0
    out_of_turn = [own for own in found if own < 0]
    assert len(set(out_of_turn)) == len(out_of_turn)
