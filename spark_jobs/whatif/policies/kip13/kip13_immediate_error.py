"""An error at once, rejected by KIP-13. Source: KIP-13, Rejected Alternatives, Quota Actions, A.

"A badly behaved client can simply retry in a loop": ``retry.backoff.ms`` is at least 1 ms here, the
round trip that even such a client needs; 100 ms, the producer's default, if not set. The error says
nothing of how long to wait. What else was decided is listed in kip13_refusing.
"""

from __future__ import annotations

from spark_jobs.whatif.policies.kip13.kip13_refusing import Kip13Refusing


class Kip13ImmediateError(Kip13Refusing):
    """A client above its quota gets an error at once, and may try again. Document: KIP-13."""

    name = "kip13_immediate_error"
    title = "KIP-13 Quotas, rejected: an error at once"
    backoff_default_ms = 100
    backoff_min_ms = 1
