"""Muted connections lose no line of a whole log, and hide neither lost lines nor a lost broker."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.ingest.lost_lines.lost_lines import LOST_LINES, NEVER_READ, OTHER_BROKER, gaps_of
from tests.spark_jobs.ingest.lost_lines.sent_requests import Sent
from tests.spark_jobs.ingest.lost_lines.throttled_clients import Client, Unread, send


@st.composite
def clients(draw: st.DrawFn, brokers: tuple[int, ...] = (1, 2, 3)) -> Client:
    acks = draw(st.sampled_from([0, 0, 1]))
    return Client(
        acks=acks,
        brokers=draw(st.sampled_from(brokers)),
        is_idempotent=acks == 1 and draw(st.booleans()),
        begin_ms=0,
        lasts_ms=draw(st.integers(40_000, 150_000)),
        mean_ms=draw(st.sampled_from([20.0, 60.0, 200.0])),
        throttle_ms=tuple(draw(st.sampled_from([0, 0, 300, 9_000])) for _ in range(3)),
        reconnects_at_ms=draw(st.none() | st.integers(20_000, 60_000)),
        first_connection=10,
        seed=draw(st.integers(0, 10_000)),
    )


@settings(max_examples=60, derandomize=True)
@given(instances=st.lists(clients(), min_size=1, max_size=2))
def test_of_a_whole_log_no_line_is_lost_and_no_broker_missing(instances: list[Client]) -> None:
    sent, never_read = Sent(), 0
    for i, client in enumerate(instances):
        unread = send(sent, replace(client, first_connection=20 * i, begin_ms=7_000 * i))
        never_read += len(unread.ids)
    gaps = gaps_of(sent.lines())
    assert {gap.cause for gap in gaps} <= {NEVER_READ}
    assert sum(gap.missing for gap in gaps) <= never_read


def producers_of_one_name(seed: int) -> Sent:
    """Return what 4 to 13 throttled producers send that begin within two seconds."""
    chance, sent = np.random.default_rng(seed), Sent()
    for number in range(int(chance.integers(4, 14))):
        producer = Client(
            acks=int(chance.choice([0, 1, 1])),
            brokers=int(chance.integers(2, 4)),
            is_idempotent=bool(chance.integers(0, 2)),
            begin_ms=int(chance.integers(0, 2_000)),
            lasts_ms=int(chance.integers(5_000, 50_000)),
            mean_ms=float(chance.choice([60.0, 200.0])),
            throttle_ms=(9_000, 9_000, 300),
            reconnects_at_ms=None,
            first_connection=20 * number,
            seed=int(chance.integers(0, 1_000_000)),
        )
        send(sent, producer)
    return sent


def test_of_producers_of_one_name_that_begin_at_once_no_line_is_lost() -> None:
    lines, lost = 0, 0
    for sent in map(producers_of_one_name, range(40)):
        lines += len(sent.connection)
        lost += sum(gap.missing for gap in gaps_of(sent.lines()) if gap.cause != NEVER_READ)
    # Ids of some 20 connections may fit together in more than one way: one in a thousand.
    assert lost <= lines / 1_000


def can_be_told(sent: Sent, unread: Unread) -> np.ndarray:
    """Return True for each request that is not among ids that no broker may have read."""
    numbers = np.array(sent.correlation_id)
    alike = [(numbers >= ids.start) & (numbers < ids.stop) for ids in unread.looks_alike]
    return ~np.any([np.zeros(len(numbers), bool), *alike], axis=0)


@pytest.mark.parametrize("share", [0.001, 0.02])
@settings(max_examples=60, derandomize=True)
@given(client=clients(), seed=st.integers(0, 1000))
def test_lines_that_were_lost_are_found(share: float, client: Client, seed: int) -> None:
    sent = Sent()
    unread = send(sent, client)
    numbers, connections = np.array(sent.correlation_id), np.array(sent.connection)
    ends = [numbers[connections == one][[0, -1]] for one in np.unique(connections)]
    is_lost = np.random.default_rng(seed).random(len(numbers)) < share
    is_lost &= can_be_told(sent, unread) & ~np.isin(numbers, ends)
    found = Counter[str]()
    for gap in gaps_of(sent.lines(set(np.flatnonzero(is_lost).tolist()))):
        found[gap.cause] += gap.missing
    assert found[LOST_LINES] == is_lost.sum()
    assert found[NEVER_READ] <= len(unread.ids)


@settings(max_examples=60, derandomize=True)
@given(client=clients((2, 3)), missing=st.integers(1, 3))
def test_a_broker_that_is_missing_is_found(client: Client, missing: int) -> None:
    sent = Sent()
    unread = send(sent, client)
    is_told = can_be_told(sent, unread)
    is_missing = np.array(sent.broker_id) == missing
    gaps = gaps_of(sent.lines(set(np.flatnonzero(is_missing).tolist())))
    told = is_missing[is_told]
    if (~told).sum() >= 300 and told.mean() > 0.25:
        assert OTHER_BROKER in {gap.cause for gap in gaps}
