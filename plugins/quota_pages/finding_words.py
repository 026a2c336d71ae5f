"""What a finding's explanations mean, and what to do about a finding, in words."""

from __future__ import annotations

HYPOTHESES = {
    "configured_quota": ("the configured value", "The broker did what is configured."),
    "previous_quota": (
        "an earlier value",
        "The broker went by an earlier value of this client: the change had not reached it, for "
        "longer than changes take, or a removed value stayed in force.",
    ),
    "other_level": (
        "the value of another level",
        "The broker went by another value that matches this client, such as a default.",
    ),
    "unknown_quota": (
        "a value nobody knows of",
        "The broker went by a value that is nowhere on record; it is estimated from the throttles "
        "alone.",
    ),
    "not_enforced": ("no enforcement at all", "The broker throttled nothing."),
    "other_rate_profile": (
        "the rate of another version",
        "The broker counts as another Kafka version does, as in a cluster of mixed versions.",
    ),
    "state_lost": (
        "a restart",
        "The broker had forgotten what it had counted, after a restart or an expiry.",
    ),
    "client_ignores_throttle": (
        "connections that are not held back",
        "The broker read a connection more than 100 ms before its throttle had ended.",
    ),
    "request_quota": (
        "a request quota",
        "The request quota of the same request throttled it, by up to one window.",
    ),
    "lines_missing": (
        "missing lines",
        "The broker may have counted requests that are not in the log.",
    ),
}
"""By ``codes.HYPOTHESES``: a name, and what the broker then did."""

_LOOK_AT_ONE = (
    "Open some of the decisions below: each explanation shows the arithmetic, with the value and "
    "what the broker had counted. If that value is not what was configured, the record of changes "
    "is wrong (docs/quota-timeline.md); if it is, take the explanation to whoever runs the broker."
)
_ASK_THE_CLUSTER = (
    "Ask the cluster which value it has (kafka-configs.sh --describe). If it is the configured "
    "one, see in this broker's log whether the change arrived. If it is another, the audit was not "
    "told of a change: give it a snapshot (docs/quota-timeline.md)."
)
WHAT_TO_DO = {
    "wrong_quota": _ASK_THE_CLUSTER,
    "not_enforced": _ASK_THE_CLUSTER,
    "under_throttled": _LOOK_AT_ONE,
    "over_throttled": _LOOK_AT_ONE,
    "wrongly_admitted": _LOOK_AT_ONE,
    "wrongly_refused": _LOOK_AT_ONE,
    "other_rate_profile": (
        "See which version this broker runs. If it is the right one, tell the audit: "
        "--broker-version, or a kafka-version.txt in the archive."
    ),
    "state_lost": (
        "See whether the broker was restarted at that time. Archive its server.log too: the audit "
        "then knows of starts, and takes this for no fault."
    ),
    "throttle_ignored": (
        "Brokers since 2.0 do not read a connection until its throttle has ended, so this is no "
        "matter of the client alone: see which version this broker runs."
    ),
    "lines_missing": (
        "Nobody is accused. Look for rotated files that are missing from the archive, and for "
        "brokers whose log is not in it; then audit the day again."
    ),
    "disagrees_with_metrics": (
        "Nobody is accused: the log does not show what the broker counted, so what else is said of "
        "this client may be wrong too. Complete the archive, or correct the clock or time zone; "
        "then audit the day again (docs/crosscheck.md)."
    ),
}
"""By ``codes.FINDING_KINDS``."""

WHY_IT_WON = (
    "An explanation is told only where it accounts for at least 60 % of the decisions that say "
    "anything, and for 30 points more than the configured value does."
)
NO_CANDIDATES = (
    "These are single decisions that differ from the rule. No one cause was found for all of them."
)
