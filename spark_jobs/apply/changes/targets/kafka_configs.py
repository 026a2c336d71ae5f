"""A shell script for Kafka's ``kafka-configs.sh``: one call of the tool for each change.

Kafka: ``ConfigCommand``. It takes one entity a call, reads an empty name as the default, and
refuses to delete what is not set.
"""

from __future__ import annotations

import shlex

from spark_jobs.apply.changes.quota_alteration import QuotaAlteration
from spark_jobs.apply.changes.targets.target import Plan, Situation, Target
from spark_jobs.apply.changes.wording import change_sentence, comment, number, subject
from spark_jobs.quota.codes import DEFAULT

_HOW = (
    "BOOTSTRAP       host:port of a broker (required)",
    "COMMAND_CONFIG  path of a properties file with the client's credentials (optional)",
    "KAFKA_CONFIGS   the tool, if it is not on PATH (optional)",
    "Stops at the first command that fails; every command may be repeated.",
)
_FUNCTIONS = """\
set -euo pipefail
: "${BOOTSTRAP:?is not set: give host:port of a broker, as in BOOTSTRAP=broker-1:9092 $0}"

alter() {
  "${KAFKA_CONFIGS:-kafka-configs.sh}" --bootstrap-server "$BOOTSTRAP" \\
    ${COMMAND_CONFIG:+--command-config "$COMMAND_CONFIG"} --alter "$@"
}

# The tool fails when there is nothing to delete; here that is as good as deleted.
remove() {
  local said
  if said=$(alter "$@" 2>&1); then
    printf '%s\\n' "$said"
  elif [[ $said == *"Invalid config(s)"* ]]; then
    printf 'Nothing to delete.\\n'
  else
    printf '%s\\n' "$said" >&2
    return 1
  fi
}
"""


def entity_arguments(user: str | None, client_id: str | None) -> list[str]:
    """Return the tool's arguments that name an entity.

    >>> " ".join(entity_arguments("alice", "<default>"))
    '--entity-type users --entity-name alice --entity-type clients --entity-default'
    """
    arguments = []
    for entity_type, name in (("users", user), ("clients", client_id)):
        if name is not None:
            arguments += ["--entity-type", entity_type]
            arguments += ["--entity-default"] if name == DEFAULT else ["--entity-name", name]
    return arguments


def _why_not(alteration: QuotaAlteration, _: Situation) -> str | None:
    if any("\0" in part for part in alteration.entity if part):
        return (
            "its name has a zero byte, which no argument of a command can hold; use the target "
            "admin-json."
        )
    return None


def _text(plan: Plan) -> str:
    head = "#!/usr/bin/env bash\n" + plan.head(*_HOW) + _FUNCTIONS
    return head + "".join(_command(change) for change in plan.changes)


def _command(change: QuotaAlteration) -> str:
    if change.after is None:
        call, config = "remove", ["--delete-config", change.quota_type]
    else:
        call, config = "alter", ["--add-config", f"{change.quota_type}={number(change.after)}"]
    arguments = shlex.join([*entity_arguments(*change.entity), *config])
    return f"\n{comment(subject(change), change_sentence(change))}{call} {arguments}\n"


TARGET = Target(_why_not, _text)
