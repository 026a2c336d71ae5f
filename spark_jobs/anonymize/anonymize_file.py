"""One file of an archive → its copy under pseudonyms, line by line, packed as it was."""

from __future__ import annotations

import datetime as dt
import hmac
import re
import zoneinfo
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from spark_jobs.anonymize.pseudonyms import Kind, Pseudonyms
from spark_jobs.anonymize.quota_files import (
    written_journal,
    written_properties,
    written_snapshot,
)
from spark_jobs.anonymize.request_lines import RequestLines
from spark_jobs.errors import BadInputError
from spark_jobs.ingest.archive import LogFile
from spark_jobs.ingest.archived_file import cut_off, packed_writer, read_small_text
from spark_jobs.ingest.file_report import FileReport
from spark_jobs.ingest.log_stream import TruncatedFileError, line_blocks, lines_of
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
from spark_jobs.ingest.read_logs import with_changes
from spark_jobs.quota.codes import DEFAULT
from spark_jobs.settings import IngestSettings

REQUEST_LOG, SERVER_LOG, SNAPSHOT, JOURNAL, PROPERTIES = (
    "request logs", "server logs", "snapshots", "journals", "server.properties",
)  # fmt: skip
_TEXTS = {SNAPSHOT: written_snapshot, JOURNAL: written_journal, PROPERTIES: written_properties}


@dataclass(frozen=True, slots=True)
class CopyTask:
    """A file to copy; the key is not among what is shown of a task."""

    kind: str
    log: LogFile
    target: Path
    timezone: str
    prefix: str | None
    key: bytes = field(repr=False)


@dataclass(slots=True)
class CopyReport:
    """What became of one file."""

    kind: str
    file: FileReport
    lines: int = 0
    requests: int = 0
    bodies_left_out: int = 0
    replaced: Counter[Kind] = field(default_factory=Counter)
    blanked: Counter[str] = field(default_factory=Counter)


def copy_file(task: CopyTask) -> CopyReport:
    """Write the copy of one file and return what became of it.

    A file that cannot be used as it is has its reason in ``file.refused``.
    """
    log = task.log
    report = CopyReport(task.kind, FileReport(log.source_file, log.broker_id, log.size_bytes))
    pseudonyms = Pseudonyms(task.key)
    task.target.parent.mkdir(parents=True, exist_ok=True)
    try:
        if task.kind == REQUEST_LOG:
            _copy_requests(task, pseudonyms, report)
        elif task.kind == SERVER_LOG:
            _copy_server_log(task, pseudonyms, report)
        else:
            errors = "replace" if task.kind == PROPERTIES else "strict"
            text = read_small_text(log.path, errors)
            written = _TEXTS[task.kind](text, log.source_file, pseudonyms)
            task.target.write_text(written, encoding="utf-8", errors="replace")
    except BadInputError as error:
        report.file.refused = str(error)
        return report
    report.replaced = pseudonyms.replaced
    report.file = with_changes(report.file, log)
    return report


def _copy_requests(task: CopyTask, pseudonyms: Pseudonyms, report: CopyReport) -> None:
    prefix = re.compile(task.prefix.encode()) if task.prefix else None
    lines = RequestLines(pseudonyms, task.key, zoneinfo.ZoneInfo(task.timezone), prefix)
    _copy_lines(task, lines.line, report)
    report.requests, report.bodies_left_out = lines.requests, lines.bodies_left_out
    report.blanked["lines of other loggers, and of nothing"] += lines.other
    for reason, count in lines.set_aside.items():
        report.blanked[f"lines that do not read: {reason}"] += count


def _copy_server_log(task: CopyTask, pseudonyms: Pseudonyms, report: CopyReport) -> None:
    lines = ServerLines(pseudonyms, task.key)
    _copy_lines(task, lambda raw: lines.line(raw.decode("utf-8", "replace")).encode(), report)
    report.blanked["lines of server logs that tell nothing of quotas"] += lines.blanked


def _copy_lines(task: CopyTask, written: Callable[[bytes], bytes], report: CopyReport) -> None:
    is_cut = False
    with packed_writer(task.target) as target:
        blocks = line_blocks(task.log.path, ratio_max=IngestSettings().unpacked_ratio_max)
        try:
            for block in blocks:
                lines = lines_of(block)
                report.lines += len(lines)
                target.write(b"".join(written(line) + b"\n" for line in lines))
        except TruncatedFileError:
            is_cut = True
    if is_cut:
        report.blanked["ends of files that are cut off"] += 1
        cut_off(task.target)


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
    """The lines of a server.log, in their order, and of each what an audit reads of it.

    That are changes of quotas, throttled requests, starts and ends of the broker, and stamps. Of
    any other line, a stack trace among them, nothing is left but its stamp.
    """

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
