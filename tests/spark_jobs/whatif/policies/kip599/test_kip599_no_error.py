"""KIP-599, early revision, rejected: throttle the admission without an error code."""

from __future__ import annotations

import pytest

from spark_jobs.whatif.policies.decision import Decision, Held
from spark_jobs.whatif.policies.kafka_config import PolicyConfigError
from spark_jobs.whatif.policies.kip599.kip599_early import Kip599Early, Kip599NoError
from tests.spark_jobs.whatif.policies.mutation_requests import admitted, create

CONFIG = {"quota.partition.mutations.rate": 5, "quota.partition.mutations.burst": 100}


def test_new_versions_are_accepted_and_held_as_old_ones_are() -> None:
    found = Kip599NoError.configured(CONFIG)
    decision = found.decide(create(100, 60))
    assert (admitted(decision), decision.refusal) == ([True, True], None)
    assert (decision.held, decision.delay_ms, decision.measured) == (
        Held.NEXT_REQUEST,
        12_001,
        -60,
    )


@pytest.mark.parametrize("version", [5, 7])
def test_it_decides_on_everyone_as_the_proposal_does_on_old_clients(version: int) -> None:
    no_error, early = Kip599NoError.configured(CONFIG), Kip599Early.configured(CONFIG)

    def essence(decision: Decision) -> tuple[object, ...]:
        return decision.delay_ms, decision.held, decision.measured, admitted(decision)

    for at_s in range(30):
        as_old = early.decide(create(20, at_s=at_s, api_version=5))
        assert essence(no_error.decide(create(20, at_s=at_s, api_version=version))) == essence(
            as_old
        )


def test_a_key_on_retries_after_an_error_is_refused() -> None:
    with pytest.raises(PolicyConfigError, match="no such key"):
        Kip599NoError.configured({"retry.quota.violation.exception": True})
