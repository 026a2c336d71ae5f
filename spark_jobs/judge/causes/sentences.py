"""Sentences of findings: who, which quota, where, what the broker did and should have done."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spark_jobs.judge.causes.hypotheses import EARLY_MS
from spark_jobs.judge.causes.known_faults import KnownFault
from spark_jobs.judge.causes.stretch_findings import ExplainedStretch
from spark_jobs.quota.sensor_key import SensorKey
from spark_jobs.wording.numbers import unit_of


def entity_name(quota_user: str, quota_client_id: str) -> str:
    """Return a sensor's client as people say it.

    >>> entity_name("alice", ""), entity_name("", ""), entity_name("bob", "etl")
    ("user 'alice'", 'clients without a client-id', "user 'bob', client-id 'etl'")
    """
    parts = []
    if quota_user:
        parts.append(f"user '{quota_user}'")
    if quota_client_id:
        parts.append(f"client-id '{quota_client_id}'")
    return ", ".join(parts) or "clients without a client-id"


def explain(
    kind: str, key: SensorKey, evidence: Mapping[str, Any], fault: KnownFault | None
) -> str:
    """Return the sentence of a finding of ``kind``; ``evidence`` holds the interval's numbers."""
    who = entity_name(key.quota_user, key.quota_client_id)
    is_unbound = kind == "over_throttled" and evidence["bound_min"] is None
    sentence = (_WITHOUT_QUOTA if is_unbound else _SENTENCES[kind]).format(
        who=who[0].upper() + who[1:],
        quota=key.quota_type,
        broker=key.broker_id,
        bound=_bound(key.quota_type, evidence),
        **{name: _number(value) for name, value in evidence.items()},
    )
    if evidence["open_decisions"]:
        sentence += _ALIKE.format(open_decisions=_number(evidence["open_decisions"]))
    if fault:
        sentence += f" This looks like {fault.key}: {fault.description}."
    return sentence


def explain_hypothesis(stretch: ExplainedStretch, fault: KnownFault | None) -> str:
    """Return the sentences of a finding that a hypothesis explains: what, how sure, what else."""
    key, evidence = stretch.key, stretch.evidence
    who = entity_name(key.quota_user, key.quota_client_id)
    unit = unit_of(key.quota_type)
    configured, estimated = evidence["configured_bound"], stretch.estimated_bound
    what = _HYPOTHESES[stretch.hypothesis].format(
        who=who[0].upper() + who[1:],
        quota=key.quota_type,
        broker=key.broker_id,
        configured=f"{_number(configured)} {unit}" if configured else "no value",
        estimated=f"{_number(estimated)} {unit}",
        detail=evidence["detail"],
        early=f"{evidence['early_requests']:,}",
        early_s=EARLY_MS / 1000,
    )
    share = (
        f"That explains {_percent(stretch.share)} of {evidence['evidence_decisions']:,} "
        f"decisions; {_OTHERS[stretch.runner_up]} would explain "
        f"{_percent(stretch.runner_up_share)}."
    )
    known = f" This looks like {fault.key}: {fault.description}." if fault else ""
    return f"{what} {share}{known}"


_HYPOTHESES = {
    "previous_quota": (
        "{who}: broker {broker} went by {quota} of {estimated}, an earlier value, where "
        "{configured} is configured: the change had not reached it."
    ),
    "other_level": (
        "{who}: broker {broker} went by {quota} of {estimated}, the value set for its {detail}, "
        "where {configured} applies."
    ),
    "unknown_quota": (
        "{who}: broker {broker} enforced {quota} of {estimated}, where {configured} is configured "
        "as far as is known. No other value known for this client fits: the record of quota "
        "changes is wrong, or the broker's own value is."
    ),
    "not_enforced": (
        "{who}: {quota} of {configured} was not enforced on broker {broker}: it throttled nothing "
        "that was due."
    ),
    "other_rate_profile": (
        "{who}: broker {broker} counted {quota} by another rate ({detail}) than its version does: "
        "is another version running there?"
    ),
    "state_lost": (
        "{who}: broker {broker} had forgotten what it had counted for {quota} of {configured}, as "
        "after a restart, and throttled as if the client had been idle."
    ),
    "counted_apart": (
        "{who}: broker {broker} did not count connection {detail} together with this client's "
        "others for {quota} of {configured}: each part was held to the quota on its own."
    ),
    "client_ignores_throttle": (
        "{who}: broker {broker} went on reading connections that it had throttled by {quota} of "
        "{configured}; {early} requests came more than {early_s} s before their throttle had ended."
    ),
    "lines_missing": (
        "{who}: lines are missing from the log of broker {broker}, so its throttles by {quota} of "
        "{configured} cannot be checked exactly: many are longer than what is logged asks for, by "
        "no more than the missing requests can have been."
    ),
}
_OTHERS = {
    "configured_quota": "the configured value",
    "previous_quota": "an earlier value",
    "other_level": "the value of another level",
    "unknown_quota": "another value",
    "not_enforced": "no enforcement at all",
    "other_rate_profile": "the rate of another version",
    "state_lost": "a restart",
    "counted_apart": "a connection that is counted apart",
    "client_ignores_throttle": "clients that do not wait",
    "request_quota": "a request quota",
    "lines_missing": "missing lines",
}

_SENTENCES = {
    "not_enforced": (
        "{who}: {quota} of {bound} was not enforced on broker {broker}. {due} decisions were due "
        "to be throttled or refused, {enforced} were."
    ),
    "wrongly_admitted": (
        "{who}: broker {broker} admitted {wrong_decisions} mutations that {quota} of {bound} "
        "refuses; it refused {enforced} of {due} that were due."
    ),
    "wrongly_refused": (
        "{who}: broker {broker} refused {wrong_decisions} of {decisions} mutations that {quota} "
        "of {bound} admits."
    ),
    "under_throttled": (
        "{who}: broker {broker} throttled {wrong_decisions} of {decisions} requests less than "
        "{quota} of {bound} asks for, by up to {difference_max_ms} ms."
    ),
    "over_throttled": (
        "{who}: broker {broker} throttled {wrong_decisions} requests more than {quota} of {bound} "
        "asks for, by up to {difference_max_ms} ms."
    ),
}

_WITHOUT_QUOTA = (
    "{who}: broker {broker} throttled {wrong_decisions} requests for which no {quota} is "
    "configured."
)

_ALIKE = " {open_decisions} more deviate in the same way, each too little to prove anything alone."


def _bound(quota_type: str, evidence: Mapping[str, Any]) -> str:
    low, high = evidence["bound_min"], evidence["bound_max"]
    if low is None:
        return "none"
    value = _number(low) if low == high else f"{_number(low)} to {_number(high)}"
    return f"{value} {unit_of(quota_type)}"


def _number(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.6g}"


def _percent(share: float) -> str:
    """Return a share as people say it; all and nothing only where that is so."""
    if 0 < share < 0.001 or 0.999 < share < 1:
        return "nearly nothing" if share < 0.5 else "nearly all"
    return f"{share:.1%}".replace(".0%", "%")
