"""One interface to all targets: alterations in, what applies them and takes them back out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from spark_jobs.apply.changes.kafka_rules import each_once, sift
from spark_jobs.apply.changes.quota_alteration import (
    QuotaAlteration,
    QuotaValue,
    altered,
    quota_set,
)
from spark_jobs.apply.changes.targets import (
    admin_json,
    jikkou,
    kafka_configs,
    kip13,
    rpk,
    strimzi,
    terraform,
)
from spark_jobs.apply.changes.targets.target import Plan, Rendered, Situation, Target
from spark_jobs.errors import BadInputError

TARGETS: dict[str, Target] = {
    "kafka-configs": kafka_configs.TARGET,
    "admin-json": admin_json.TARGET,
    "strimzi": strimzi.TARGET,
    "jikkou": jikkou.TARGET,
    "terraform": terraform.TARGET,
    "rpk": rpk.TARGET,
    "kip13": kip13.TARGET,
}


def render(
    target: str, alterations: Sequence[QuotaAlteration], in_force: Sequence[QuotaValue]
) -> Rendered:
    """Return ``alterations`` as ``target`` writes them, with their rollback and the refused ones.

    ``in_force`` is every value set in the cluster: some targets replace more than what changes.
    Of a value that is altered, the alteration's own ``before`` is what is gone back to. Raises
    BadInputError for a target that is none of :data:`TARGETS`.
    """
    if target not in TARGETS:
        raise BadInputError(
            f"--target {target!r} is not one of {', '.join(TARGETS)}; name one of them."
        )
    chosen = TARGETS[target]
    possible, refused_by_kafka = sift(alterations, each_once())
    before = altered(quota_set(in_force), [change.taken_back() for change in possible])
    situation = Situation(possible, before)
    changes, refused = sift(possible, lambda change: chosen.why_not(change, situation))
    after = altered(before, changes)
    refusals = (*refused_by_kafka, *refused)
    taken_back = tuple(replace(c.taken_back(), reason="") for c in reversed(changes))
    return Rendered(
        chosen.text(Plan("Sets the proposed quotas.", changes, before, after, refusals)),
        chosen.text(Plan("Takes the proposed quotas back.", taken_back, after, before)),
        refusals,
    )
