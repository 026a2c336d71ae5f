"""From which version on a response says how long its client is throttled."""

from __future__ import annotations

from types import MappingProxyType

from spark_jobs.quota.apis import APIS

THROTTLE_TIME_SINCE = MappingProxyType(
    {
        name: api.throttle_time_since
        for api in APIS.values()
        if api.broker and not api.is_exempt
        for name in api.names
    }
)
"""First version of the response with ``throttle_time_ms``, None: it never has it; of every request
that the request quota counts."""


def tells_throttle_time(api_name: str, api_version: int) -> bool:
    """Return True if the response of a request of this version says the throttle time.

    >>> tells_throttle_time("PRODUCE", 0), tells_throttle_time("PRODUCE", 1)
    (False, True)
    """
    since = THROTTLE_TIME_SINCE.get(api_name)
    return since is not None and api_version >= since
