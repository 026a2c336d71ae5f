"""Controls of a score: the same capture under quotas or rates that are known to be wrong.

What fits the brokers because it could fit anything would fit these as well. Both must score
clearly worse than the capture does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from spark_jobs.quota.rate_profile import RateProfile
from spark_jobs.score.score_capture import ScoreRequest, score_capture

BOUND_FACTOR = 1.05
# A version of the other arithmetic of samples.
_OTHER_VERSION = {
    RateProfile.RATE_0_9: "4.1.0",
    RateProfile.RATE_3_3: "4.1.0",
    RateProfile.RATE_3_8: "3.7.2",
}
SHOWN = ("produce_decisions", "decision_agreement", "throttled", "throttle_within_1ms", "flagged")


def score_controls(request: ScoreRequest, profile: RateProfile) -> dict[str, dict[str, Any]]:
    """Return SHOWN of the capture's figures by control; each is an audit of its own.

    ``profile`` is what the brokers count by. A warehouse that ``request`` names is not used.
    """
    return {
        name: {figure: score_capture(control)[figure] for figure in SHOWN}
        for name, control in _controls(replace(request, warehouse=None, planted=None), profile)
    }


def _controls(request: ScoreRequest, profile: RateProfile) -> Iterator[tuple[str, ScoreRequest]]:
    yield f"every bound x {BOUND_FACTOR}", replace(request, bound_factor=BOUND_FACTOR)
    version = _OTHER_VERSION[profile]
    options = replace(request.options, versions={None: version})
    yield f"the rate of {version}", replace(request, options=options)
