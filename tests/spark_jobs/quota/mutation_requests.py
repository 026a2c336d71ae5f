"""Mutations as a log tells of them: what a bucket of 11 s met, in ms since T0."""

from __future__ import annotations

from dataclasses import replace

from spark_jobs.quota.mutation_bucket import MutationRequest

T0 = 1_700_000_000_000
BURST_S = 11.0


def request(
    at_ms: int,
    *mutations: tuple[float, bool],
    early_ms: int = 0,
    late_ms: int = 0,
    logged_ms: int | None = None,
    bound: float = 1.0,
    is_strict: bool = True,
) -> MutationRequest:
    """Return a request estimated at ``at_ms`` whose response is made 50 ms later."""
    at_ms += T0
    return MutationRequest(
        recorded_at_ms=at_ms,
        earliest_ms=at_ms - early_ms,
        latest_ms=at_ms + late_ms,
        bound=bound,
        is_strict=is_strict,
        mutations=mutations,
        response_earliest_ms=at_ms + 48,
        response_latest_ms=at_ms + 50,
        logged_ms=logged_ms,
        request=at_ms,
    )


def parts(at_ms: int, number: int, *mutations: tuple[float, bool]) -> list[MutationRequest]:
    """Return the topics of a permissive request that are recorded one by one, within 10 ms."""
    one = request(at_ms, is_strict=False, early_ms=5, late_ms=5, logged_ms=0)
    return [
        replace(
            one, mutations=(each,), request=number, parts=len(mutations), is_first=i == 0,
            recorded_at_ms=one.earliest_ms + 3 * i,
        )
        for i, each in enumerate(mutations)
    ]  # fmt: skip


# A full bucket of 11: 12 leave a debt of 1, which is paid after a second.
SPENT = request(0, (12.0, True))
