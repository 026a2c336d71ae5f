"""The lines of a server.log under pseudonyms: as many, and of each what an audit reads of it.

That are changes of quotas, throttled requests, starts and ends of the broker, and stamps. Of any
other line, a stack trace among them, nothing is left but its stamp.
"""

from __future__ import annotations

import datetime as dt
import hmac
from urllib.parse import quote

from spark_jobs.anonymize.pseudonyms import Kind, Pseudonyms
from spark_jobs.ingest.quota_sources.events import QuotaEvent
from spark_jobs.ingest.quota_sources.server_log import (
    STAMP,
    STARTED,
    STARTING,
    STOPPED,
    ServerLog,
    ThrottleRecord,
    read_server_log,
)
from spark_jobs.quota.codes import DEFAULT

_MANAGERS = {
    "producer_byte_rate": ("PRODUCE", "Produce", "ClientQuotaManager"),
    "consumer_byte_rate": ("FETCH", "Fetch", "ClientQuotaManager"),
    "request_percentage": ("REQUEST", "Request", "ClientRequestQuotaManager"),
    "controller_mutation_rate": (
        "CONTROLLER_MUTATION",
        "ControllerMutation",
        "ControllerMutationQuotaManager",
    ),
}
_UNREAD = "INFO Changing PRODUCE quota for something to something"
_OUT_OF_SCOPE = "INFO Updating max connection rate override for something"
# In the order in which the reader looks for them.
_LIFE = (
    (STARTING, "Transition from SHUTDOWN to STARTING"),
    (STARTED, "Kafka Server started"),
    (STOPPED, "shut down completed"),
)


class ServerLines:
    """The lines of one file, in their order."""

    def __init__(self, pseudonyms: Pseudonyms, key: bytes) -> None:
        """``key`` marks lines of starts, so that different ones stay different."""
        self._pseudonyms, self._key = pseudonyms, key
        self.blanked = 0

    def line(self, line: str) -> str:
        """Return the line that stands for ``line``, without its line end."""
        stamp = STAMP.search(line)
        if stamp is None:
            self.blanked += 1
            return ""
        told = read_server_log([line], 0, "", dt.UTC)
        written = self._written(told, line[stamp.end() :])
        self.blanked += not written
        return f"[{stamp[1]}] {written}".rstrip()

    def _written(self, told: ServerLog, text: str) -> str:
        if told.quota_events:
            return self._change(told.quota_events[0])
        if told.throttles:
            return self._throttle(told.throttles[0])
        if told.unread_lines:
            return _UNREAD
        if told.out_of_scope_lines:
            return _OUT_OF_SCOPE
        for pattern, words in _LIFE:
            if pattern.search(text):
                return f"INFO {words} {self._mark(text.strip())}"
        return ""

    def _mark(self, text: str) -> str:
        """Return a mark equal for equal texts: a line that comes again tells another start."""
        said = b"start\0" + text.encode("utf-8", "surrogatepass")
        return hmac.digest(self._key, said, "sha256")[:8].hex()

    def _change(self, event: QuotaEvent) -> str:
        name, _, manager = _MANAGERS[event.quota_type]
        entity = " ".join(self._entity(event))
        if event.bound is None:
            return f"INFO Removing {name} quota for {entity} (kafka.server.{manager})"
        return f"INFO Changing {name} quota for {entity} to {event.bound} (kafka.server.{manager})"

    def _entity(self, event: QuotaEvent) -> list[str]:
        parts = []
        if event.quota_user is not None:
            is_default = event.quota_user == DEFAULT
            parts.append("default user" if is_default else f"user {self._user(event.quota_user)}")
        if event.quota_client_id is not None:
            client_id = self._pseudonyms.name(event.quota_client_id, Kind.CLIENT_ID)
            is_default = event.quota_client_id == DEFAULT
            parts.append("default client-id" if is_default else f"client-id {client_id}")
        return parts

    def _throttle(self, record: ThrottleRecord) -> str:
        _, name, manager = _MANAGERS[record.quota_type]
        client_id = self._pseudonyms.name(record.client_id, Kind.CLIENT_ID)
        return (
            f"DEBUG Quota violated for sensor ({name}-{self._user(record.user)}:{client_id}). "
            f"Delay time: ({record.throttle_time_ms}) (kafka.server.{manager})"
        )

    def _user(self, user: str) -> str:
        """Return the pseudonym as Kafka's ``Sanitizer`` encodes it for the log."""
        encoded = quote(self._pseudonyms.name(user, Kind.PRINCIPAL), safe="")
        return encoded.replace("~", "%7E")
