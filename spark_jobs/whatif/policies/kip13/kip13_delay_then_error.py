"""A delay and then an error, rejected by KIP-13.

Source: KIP-13, Rejected Alternatives, Quota Actions, B. Decided where the document is silent,
beside the list of kip13_refusing:

- ``quota.delay.ms`` is its n (1 s if not set), at most ``request.timeout.ms`` (30 s). A parked
  request gets its error after n even if the quota has recovered meanwhile: "After the request
  expires, the broker can return an error".
- Clients "can retry immediately": ``retry.backoff.ms`` is 0 if not set.
- acks=0: the connection is held up all the same, and nobody hears of the error.
- Parked bytes are those of produces, from their arrival until their error.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import accumulate

from spark_jobs.whatif.policies.kip13.kip13_config import ConfigKeys
from spark_jobs.whatif.policies.kip13.kip13_refusing import Kip13Refusing


class Kip13DelayThenError(Kip13Refusing):
    """A client above its quota waits for n ms, and gets an error then. Document: KIP-13."""

    name = "kip13_delay_then_error"
    title = "KIP-13 Quotas, rejected: a delay and then an error"
    keys = Kip13Refusing.keys | {"quota.delay.ms", "request.timeout.ms"}
    backoff_default_ms = 0
    backoff_min_ms = 0

    def parked_bytes(self, broker_id: int) -> list[tuple[int, float]]:
        """Return the moments, in order, from which a broker's memory held so many parked bytes."""
        changes: defaultdict[int, float] = defaultdict(float)
        for at_ms, amount in zip(*self.parked.get(broker_id, ((), ())), strict=True):
            changes[at_ms] += amount
        times = sorted(changes)
        return list(zip(times, accumulate(changes[at] for at in times), strict=True))

    def _read(self, keys: ConfigKeys) -> None:
        timeout_ms = keys.whole("request.timeout.ms", default=30_000, minimum=1)
        parked_ms = keys.whole("quota.delay.ms", default=min(1_000, timeout_ms), minimum=1)
        if parked_ms > timeout_ms:
            rule = f"a request is parked for at most its request.timeout.ms, {timeout_ms}."
            raise keys.refused("quota.delay.ms", rule)
        super()._read(keys)
        self.parked_ms = parked_ms
