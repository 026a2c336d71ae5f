"""What each address answers: a page, a file, or what is missing; with status and headers."""

from __future__ import annotations

import csv
import datetime as dt
import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec
from fastapi.responses import FileResponse, Response

from quota_pages.addresses import Addresses
from quota_pages.audit_page import audit_page
from quota_pages.audits import (
    audit_of_run,
    file_inside,
    published_audit,
    published_audits,
    published_file,
)
from quota_pages.entities_page import EntitiesQuery, entities_page
from quota_pages.entity_page import EntityQuery, entity_page, entity_view, table_rows
from quota_pages.finding_page import finding_page
from quota_pages.overview_page import overview_page
from quota_pages.page import POLICY, STATIC, Place, render, static_file
from quota_pages.quality_page import quality_page, shown_run
from quota_pages.recommendations_page import recommendations_page
from quota_pages.whatif_page import whatif_page
from spark_jobs.errors import BadInputError
from spark_jobs.publish.acknowledge import acknowledge_finding
from spark_jobs.publish.audit_outcome import AuditOutcome
from spark_jobs.quota.codes import SEVERITIES
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.warehouse.storage import CLUSTER_PATTERN, is_in_bucket
from spark_jobs.wording.numbers import iso
from spark_jobs.wording.visible_text import without_formulas

SAFE = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
HTML = "text/html; charset=utf-8"
# Published files quote client ids and principals of the log. Should one of them ever get past the
# escaping, it finds no script, no form and no network; `allow-same-origin` alone lets links to
# other files carry the session.
FILE_POLICY = (
    "sandbox allow-same-origin allow-downloads; default-src 'none'; style-src 'unsafe-inline'; "
    "img-src 'self' data:; font-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'self'"
)
FILE_HEADERS = SAFE | {"Content-Security-Policy": FILE_POLICY}
_A_YEAR = "private, max-age=31536000, immutable"
_PAGE_OF_DAY = re.compile(
    rf"cluster=(?P<cluster>{CLUSTER_PATTERN.strip('^$')})/date=(?P<day>[0-9-]{{10}})/(?P<name>.+)"
)
# Findings get a column for each severity; a run's id may be any text that a person chose.
_NOT_IN_CSV = ("findings", "dag_run_id")
Form = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers of one warehouse; ``to``: where the pages are mounted."""

    warehouse: Path
    to: Addresses
    dag_id: str

    def overview(self, run_id: str | None, task_id: str | None) -> Response:
        """Return the first page; for a run of Airflow a redirect to the page of what it audited."""
        if run_id:
            audit = audit_of_run(self.warehouse, run_id)
            if audit is None:
                return self.missing("This run has not published an audit into this warehouse.")
            is_check = (task_id or "").startswith("validate_")
            address = self.to.quality if is_check else self.to.audit
            return _led_to(address(audit.cluster, audit.day))
        return _page(overview_page(Place(self.to), self.warehouse, self.dag_id))

    def outcomes(self) -> Response:
        """Return the outcomes of the published audits as CSV, the newest day first."""
        severities = [f"findings_{severity}" for severity in SEVERITIES]
        names = [*(n for n in AuditOutcome.__struct_fields__ if n not in _NOT_IN_CSV), *severities]
        rows = []
        for audit in published_audits(self.warehouse):
            if audit.outcome is not None:
                found = msgspec.structs.asdict(audit.outcome)
                counted = found.pop("findings")
                rows.append(found | {f"findings_{s}": counted.get(s, 0) for s in SEVERITIES})
        return _download(_csv(names, rows), "audits.csv")

    def audit(self, cluster: str, day: dt.date) -> Response:
        """Return the page of an audited day."""
        return self._of_day(cluster, day, "audit", audit_page)

    def entities(self, cluster: str, day: dt.date, form: Form) -> Response:
        """Return the list of a day's clients."""
        query = EntitiesQuery(_first(form, "q"), _first(form, "quota_type"), _page_number(form))
        return self._of_day(cluster, day, "entities", lambda p, s: entities_page(p, s, query))

    def entity(self, cluster: str, day: dt.date, name: str, form: Form) -> Response:
        """Return the page of a client."""
        try:
            query = _entity_query(form)
        except BadInputError as error:
            return self.missing(str(error), status=400)
        return self._of_day(
            cluster, day, "entities", lambda p, s: entity_page(p, s, name, query), "client"
        )

    def history(self, cluster: str, day: dt.date, name: str, form: Form) -> Response:
        """Return the steps of a client's chart as CSV."""
        try:
            query = _entity_query(form)
        except BadInputError as error:
            return self.missing(str(error), status=400)
        view = entity_view(self._day(cluster, day), name, query)
        if view is None:
            return self.missing("There is no such client on this day.")
        rows = [{"start": iso(row["start_ms"]), **row} for row in table_rows(view)]
        names = [n for n in (rows[0] if rows else ["start"]) if n != "start_ms"]
        return _download(_csv(names, rows), f"history-{cluster}-{day}-{name}.csv")

    def finding(self, cluster: str, day: dt.date, finding_id: str) -> Response:
        """Return the page of a finding."""
        return self._of_day(
            cluster, day, "audit", lambda p, s: finding_page(p, s, finding_id), "finding"
        )

    def acknowledge(
        self, cluster: str, day: dt.date, finding_id: str, given: Mapping[str, str], user: str
    ) -> Response:
        """Acknowledge a finding for ``user`` and lead back to it, or say why it cannot be."""
        scope = self._day(cluster, day)
        if published_audit(scope) is None:
            return self._no_audit(cluster, day)
        try:
            acknowledge_finding(
                scope,
                finding_id,
                owner=given["owner"],
                reason=given["reason"],
                until=_day_given(given["until"]),
                acknowledged_by=user,
            )
        except BadInputError as error:
            return self.missing(str(error), status=400)
        return _led_to(self.to.finding(cluster, day, finding_id))

    def recommendations(self, cluster: str, day: dt.date, form: Form) -> Response:
        """Return the page of a day's proposals."""
        return self._of_day(
            cluster,
            day,
            "recommendations",
            lambda p, s: recommendations_page(p, s, _first(form, "q"), _page_number(form)),
        )

    def whatif(self, cluster: str, day: dt.date) -> Response:
        """Return the comparison of policies."""
        return self._of_day(cluster, day, "whatif", whatif_page)

    def quality(self, cluster: str, day: dt.date) -> Response:
        """Return the data-quality results of a day."""
        scope = shown_run(RunScope(self.warehouse, cluster, day))
        made = quality_page(Place(self.to, cluster, day, "quality"), scope)
        return self._no_audit(cluster, day) if made is None else _page(made)

    def explain(self, form: Form) -> Response:
        """Return the page that explains a request."""
        # Imported here: what it imports takes seconds, and most processes never need it.
        from quota_pages.explain_page import explain_answer

        first = {name: values[0] for name, values in form.items() if values}
        return _page(*explain_answer(self.warehouse, first, self.to))

    def file(self, cluster: str, day: dt.date, name: str) -> Response:
        """Return a published file: HTML to be shown, anything else as a download."""
        path = published_file(RunScope(self.warehouse, cluster, day), name)
        if path is None:
            return self.missing(f"No such file is published for {cluster} on {day}.")
        if path.suffix == ".html":
            return _file(path, HTML, FILE_HEADERS)
        return _file(path, "text/plain; charset=utf-8", _attached(name))

    def data_docs(self, name: str) -> Response:
        """Return a page of Great Expectations' Data Docs."""
        with suppress(ValueError):  # no day of any calendar
            path = file_inside(*self._docs_folder(name), self.warehouse)
            if path is not None and path.suffix == ".html":
                return _file(path, HTML, FILE_HEADERS)
        return self.missing("There is no such page of Data Docs.")

    def _docs_folder(self, name: str) -> tuple[Path, str]:
        """Return the folder of a day's Data Docs, or of all, and the name of the page in it."""
        if (of_day := _PAGE_OF_DAY.fullmatch(name)) is None:
            return self.warehouse / "data_docs", name
        day = RunScope(self.warehouse, of_day["cluster"], dt.date.fromisoformat(of_day["day"]))
        return shown_run(day).output_dir("data_docs"), of_day["name"]

    def missing(self, sentence: str, status: int = 404) -> Response:
        """Return the page with a ``sentence`` on what is missing or was asked for wrongly."""
        return _page(render("missing.html.j2", Place(self.to), sentence=sentence), status)

    def _no_audit(self, cluster: str, day: dt.date) -> Response:
        return self.missing(f"No audit of {cluster} on {day} is published in this warehouse.")

    def _day(self, cluster: str, day: dt.date) -> RunScope:
        # One page shows one run, also while the next one is published.
        return RunScope(self.warehouse, cluster, day).pinned()

    def _of_day(
        self,
        cluster: str,
        day: dt.date,
        tab: str,
        page: Callable[[Place, RunScope], str | None],
        what: str = "page",
    ) -> Response:
        scope = self._day(cluster, day)
        if published_audit(scope) is None:
            return self._no_audit(cluster, day)
        made = page(Place(self.to, cluster, day, tab), scope)
        return (
            self.missing(f"There is no such {what} on this day.") if made is None else _page(made)
        )


def static_answer(name: str) -> Response | None:
    """Return a file that comes with the package; None where none has this name."""
    content = static_file(name)
    if content is None:
        return None
    headers = SAFE | {"Cache-Control": _A_YEAR}
    return Response(content, headers=headers, media_type=STATIC[name])


def _page(text: str, status: int = 200) -> Response:
    headers = SAFE | {"Content-Security-Policy": POLICY}
    # Names from logs may hold lone surrogates, which UTF-8 has no bytes for.
    return Response(text.encode("utf-8", "replace"), status, headers, HTML)


def _led_to(address: str) -> Response:
    return Response(b"", 303, {"Location": address}, HTML)


def _file(path: Path, kind: str, headers: Mapping[str, str]) -> Response:
    if is_in_bucket(path):
        return Response(path.read_bytes(), headers=headers, media_type=kind)
    return FileResponse(path, headers=headers, media_type=kind)


def _download(content: bytes, name: str) -> Response:
    return Response(content, headers=_attached(name), media_type="text/csv; charset=utf-8")


def _attached(name: str) -> dict[str, str]:
    return SAFE | {"Content-Disposition": f'attachment; filename="{name}"'}


def _csv(names: Sequence[str], rows: Iterable[Mapping[str, object]]) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, names, extrasaction="ignore")
    writer.writeheader()
    for row in rows:
        texts = {name: without_formulas(v) for name, v in row.items() if isinstance(v, str)}
        writer.writerow({**row, **texts})
    return text.getvalue().encode()


def _first(form: Form, name: str) -> str:
    return next(iter(form.get(name, ())), "").strip()


def _page_number(form: Form) -> int:
    page = _first(form, "page")
    return int(page) if re.fullmatch(r"\d{1,9}", page) else 1


def _entity_query(form: Form) -> EntityQuery:
    brokers = tuple(form.get("broker", ()))
    if not all(re.fullmatch(r"\d{1,9}", broker) for broker in brokers):
        raise BadInputError("broker: expected the numbers of brokers.")
    return EntityQuery(
        quota_type=_first(form, "quota_type") or None,
        from_ms=_moment_ms(form, "from"),
        until_ms=_moment_ms(form, "until"),
        broker_ids=tuple(map(int, brokers)),
    )


def _day_given(text: str) -> dt.date:
    try:
        return dt.date.fromisoformat(text)
    except ValueError as error:
        raise BadInputError(
            f"until: found {text[:40]!r}, expected a day like 2026-12-24."
        ) from error


def _moment_ms(form: Form, name: str) -> int | None:
    text = _first(form, name)
    if not text:
        return None
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        moment = None
    # A range around the first or last moments that a calendar has would leave it.
    if moment is None or not 1970 <= moment.year < 9999:
        raise BadInputError(
            f"{name}: found {text[:40]!r}, expected a moment like 2026-11-21T10:30:00Z."
        )
    return int((moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)).timestamp() * 1000)
