"""``kafka_quota`` resources of the Terraform provider Mongey/kafka, one for each entity.

Provider: ``kafka/resource_kafka_quota.go`` (0.13). Every attribute forces a new resource, so that a
change is destroy and create; there is no importer, so Terraform removes only what it has set.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Mapping

from spark_jobs.apply.changes.kafka_rules import unsettable_of
from spark_jobs.apply.changes.quota_alteration import Entity, QuotaAlteration
from spark_jobs.apply.changes.targets.target import ELSEWHERE, Plan, Situation, Target
from spark_jobs.apply.changes.wording import change_sentence, comment, named, number
from spark_jobs.quota.codes import DEFAULT

# A name that ends like the digest of another one gets a digest too: labels stay distinct.
_PLAIN = re.compile(r"(?!.*-[0-9a-f]{8}$)[A-Za-z0-9_-]+")
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def label(entity: Entity) -> str:
    """Return the resource's label: always the same for an entity, and no other entity's.

    >>> label(("alice", None)), label((None, "<default>")), label((None, "a b"))
    ('user_alice', 'default_client_id', 'client_id_a_b-c8687a08')
    """
    user, client_id = entity
    kind, name = ("user", user) if client_id is None else ("client_id", client_id)
    assert name is not None
    if name == DEFAULT:
        return f"default_{kind}"
    if _PLAIN.fullmatch(name):
        return f"{kind}_{name}"
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{kind}_{re.sub('[^A-Za-z0-9_-]', '_', name)}-{digest}"


def quoted(text: str) -> str:
    r"""Return ``text`` as a quoted template of HCL that evaluates to it.

    >>> print(quoted('a "b" ${c}'))
    "a \"b\" $${c}"
    """
    escaped = "".join(_ESCAPES.get(c) or (c if c.isprintable() else _codepoint(c)) for c in text)
    return '"' + escaped.replace("${", "$${").replace("%{", "%%{") + '"'


def _codepoint(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _why_not(alteration: QuotaAlteration, situation: Situation) -> str | None:
    if None not in alteration.entity:
        return f"a kafka_quota is of a user or of a client-id, not of a pair of them; {ELSEWHERE}."
    name = alteration.user if alteration.client_id is None else alteration.client_id
    if name and not unicodedata.is_normalized("NFC", name):
        return (
            f"Terraform would write the name {name!r} in Unicode's composed form (NFC), which is "
            f"another name to Kafka; {ELSEWHERE}."
        )
    return unsettable_of(situation.held.get(alteration.entity, {}))


def _text(plan: Plan) -> str:
    head = plan.head(
        "A change destroys the quota and creates it again: for a moment the entity has none.",
        "Only a quota that is in Terraform's state can be removed.",
    )
    return head + "".join(_block(plan, entity, c) for entity, c in plan.by_entity().items())


def _block(plan: Plan, entity: Entity, changes: list[QuotaAlteration]) -> str:
    said = [f"{change.quota_type}: {change_sentence(change)}" for change in changes]
    values = plan.after.get(entity)
    body = _resource(entity, values) if values else _removed(entity)
    return "\n" + comment(f"{named(*entity)}.", *said) + body


def _resource(entity: Entity, values: Mapping[str, float]) -> str:
    user, client_id = entity
    kind, name = ("user", user) if client_id is None else ("client-id", client_id)
    assert name is not None
    named_by = "" if name == DEFAULT else f"  entity_name = {quoted(name)}\n"
    width = max(len(quota_type) for quota_type in values) + 2
    config = "".join(f"    {quoted(t):<{width}} = {number(v)}\n" for t, v in values.items())
    return (
        f'resource "kafka_quota" {quoted(label(entity))} {{\n'
        f'{named_by}  entity_type = "{kind}"\n\n  config = {{\n{config}  }}\n}}\n'
    )


def _removed(entity: Entity) -> str:
    return (
        f"removed {{\n  from = kafka_quota.{label(entity)}\n\n"
        "  lifecycle {\n    destroy = true\n  }\n}\n"
    )


TARGET = Target(_why_not, _text)
