"""Names and codes of the tables in words: clients, quota levels, verdicts, reasons, sources."""

from __future__ import annotations

from spark_jobs.quota.codes import DEFAULT
from spark_jobs.wording.numbers import count
from spark_jobs.wording.visible_text import shortened, visible

VERDICTS = {
    "agree": "as configured",
    "under_throttled": "throttled too little",
    "over_throttled": "throttled too much",
    "wrongly_admitted": "wrongly admitted",
    "wrongly_refused": "wrongly refused",
    "indeterminate": "cannot be decided",
    "no_quota": "no quota in force",
}
FINDING_KINDS = VERDICTS | {
    "not_enforced": "not enforced",
    "wrong_quota": "enforced with another value",
    "other_rate_profile": "counted by another rate",
    "state_lost": "counted anew",
    "counted_apart": "a connection counted apart",
    "throttle_ignored": "told, but not waited for",
    "lines_missing": "not checked: lines are missing",
    "disagrees_with_metrics": "the broker's metrics differ from its log",
}

REASONS = {
    "size_not_logged": "the log does not hold the size of the request",
    "request_quota_interval": "a request quota was in force too, and the log does not say which "
    "of the two throttled",
    "likely_request_time": "the time of network threads is not in the log, but its client's sends "
    "tell what it likely was",
    "lines_missing": "log lines of its clients are missing just before",
    "state_unknown": "what the broker had already counted when the log began is not known",
    "partitions_unknown": "the number of partitions of the topic is not known",
    "quota_change_in_flight": "the quota was being changed at that moment",
    "unlogged_change": "the quota seems to have been changed as a broker went down, which its log "
    "does not hold",
    "sample_timing": "a millisecond in the record time, which the log does not give, decides it",
    "broker_not_known": "the broker is newer than what is known here",
    "attempt_not_logged": "the size of the fetch that was throttled is not in the log",
}

QUARANTINE_REASONS = {
    "foreign": "no line of a Kafka log",
    "bad_time": "its time does not exist in the time zone, or is before 1970",
    "future": "its time is later than the clock of the machine that read it",
    "cut": "the line ends early",
    "interleaved": "two requests in one line",
    "broken_json": "its JSON does not read",
    "unexpected_field": "a field is missing or cannot be used",
    "broken_text": "in the text format before Kafka 2.8, with a message that does not read",
    "before_2_0": "of a broker before 2.0, which held throttled responses back",
    "too_long": "longer than 16 MB",
    "unknown_broker": "neither folder nor listener names the broker",
    "unreadable_file": "the file could not be read",
}

SOURCES = {
    "log": "request log",
    "server_log": "server log",
    "snapshot": "snapshot",
    "static": "server.properties",
    "journal": "journal of changes",
}

VERSION_SOURCES = {
    "option": "given by option",
    "archive": "from the archive's kafka-version.txt",
    "detected": "detected from the log",
    "unknown": "unknown",
}

RATE_PROFILES = {
    "rate_3_8": "the rate of Kafka 3.8 and later",
    "rate_3_3": "the rate of Kafka 3.3 to 3.7",
    "rate_0_9": "the rate of Kafka before 3.3",
}


def in_words(code: str, words: dict[str, str]) -> str:
    """Return the words for ``code``; a code nobody described is shown with spaces."""
    return words.get(code) or code.replace("_", " ")


def entity_name(quota_user: str | None, quota_client_id: str | None) -> str:
    """Return a sensor's key or a configured entity as people say it.

    In sensor keys an empty part means the level has none; in entities null does.

    >>> entity_name("alice", ""), entity_name("alice", "etl")
    ("user 'alice'", "user 'alice', client-id 'etl'")
    >>> entity_name(None, "<default>"), entity_name("", "")
    ('every client-id by default', 'clients without a client-id')
    """
    parts = [
        _part("user", quota_user),
        _part("client-id", quota_client_id),
    ]
    return ", ".join(p for p in parts if p) or "clients without a client-id"


class NamedEntity:
    """What a row of a table says of one entity, which has a name."""

    __slots__ = ()
    quota_user: str | None
    quota_client_id: str | None

    @property
    def entity(self) -> str:
        """Return the name of whom it is about, as people say it."""
        return entity_name(self.quota_user, self.quota_client_id)


def _part(kind: str, value: str | None) -> str:
    if not value:
        return ""
    if value == DEFAULT:
        return f"every {kind} by default"
    return f"{kind} '{shortened(visible(value))}'"


def plural(number: int, singular: str, several: str | None = None) -> str:
    """Return the noun that fits ``number``.

    >>> plural(1, "decision"), plural(2, "decision"), plural(0, "entity", "entities")
    ('decision', 'decisions', 'entities')
    """
    return singular if number == 1 else several or f"{singular}s"


def counted(number: float, singular: str, several: str | None = None) -> str:
    """Return a number with its noun.

    >>> counted(1, "decision"), counted(2000, "entity", "entities")
    ('1 decision', '2,000 entities')
    """
    return f"{count(number)} {plural(round(number), singular, several)}"
