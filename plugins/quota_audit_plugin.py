"""Airflow menu item "Quota audits": the warehouse's reports, for whoever may read the DAG's runs.

Airflow imports every module below its plugins folder into every one of its processes, under the
module's bare name: hence one file, a distinctive name, and no import that costs time. Routes of a
plugin are public unless a dependency guards them: the app itself carries the guard, so that no
route can be added without it.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.core_api.security import requires_access_dag
from airflow.plugins_manager import AirflowPlugin
from fastapi import Depends, FastAPI, HTTPException, Request, Response
from fastapi import Path as PathParameter
from fastapi.responses import FileResponse, HTMLResponse
from jinja2 import Environment

from spark_jobs.settings import DailyAuditSettings

DAG_ID = "quota_audit_daily"
URL_PREFIX = "/quota-audit"
# Pages that have a column of their own, and what it is called.
PAGES = {"report.html": "Report", "whatif.html": "What-if"}

# Reports quote client ids and principals of the log. Should one of them ever get past the
# escaping, it finds no script, no form and no network; `allow-same-origin` alone lets links to
# the report's other files carry the session.
_POLICY = (
    "sandbox {allowed}allow-same-origin allow-downloads; default-src 'none'; "
    "style-src 'unsafe-inline'; img-src 'self' data:; font-src data:; base-uri 'none'; "
    "form-action {forms}"
)
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": _POLICY.format(allowed="", forms="'none'"),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
# A page with a form that asks this app for itself.
_FORM_HEADERS = _HEADERS | {
    "Content-Security-Policy": _POLICY.format(allowed="allow-forms ", forms="'self'")
}
# Of clusters and files: no separator, no leading dot.
_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
_PAGE = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string("""\
<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Quota audits</title><style>
:root { color-scheme: light dark }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem }
table { border-collapse: collapse; width: 100% }
th, td { border-bottom: 1px solid #8886; padding: .4rem .8rem .4rem 0; text-align: left }
p { color: #777 }
</style></head><body>
<h1>Quota audits</h1>
<p><a href="explain">Why was a request throttled?</a></p>
{% if audits %}
<table><thead>
<tr><th>Day (UTC)</th><th>Cluster</th>
{% for title in pages.values() %}<th>{{ title }}</th>{% endfor %}
<th>Files</th></tr></thead><tbody>
{% for audit in audits %}
<tr><td>{{ audit.day }}</td><td>{{ audit.cluster }}</td>
{% for page in pages %}
<td>{% if page in audit.files %}<a href="{{ audit.href }}/{{ page }}">open</a>{% else %}none
{% endif %}</td>
{% endfor %}
<td>{% for name in audit.others %}<a href="{{ audit.href }}/{{ name }}">{{ name }}</a> {% endfor %}
</td></tr>
{% endfor %}
</tbody></table>
{% else %}
<p>No audit has been published yet. Trigger the DAG {{ dag_id }}.</p>
{% endif %}
<p>Warehouse: {{ warehouse }}. Runs that wrote to another one are not listed.</p>
</body></html>
""")


@dataclass(frozen=True, slots=True)
class PublishedAudit:
    """One published day of one cluster, and the names of its files."""

    cluster: str
    day: dt.date
    files: tuple[str, ...]

    @property
    def href(self) -> str:
        """Return the address of its files, relative to the list of audits."""
        return f"reports/{self.cluster}/{self.day}"

    @property
    def others(self) -> tuple[str, ...]:
        """Return the files besides the pages: recommendations and the scripts for them."""
        return tuple(name for name in self.files if name not in PAGES)


def published_audits(warehouse: Path) -> list[PublishedAudit]:
    """Return the audits of a warehouse, newest day first, then by cluster."""
    audits = list(_audits(warehouse / "reports"))
    return sorted(audits, key=lambda audit: (-audit.day.toordinal(), audit.cluster))


def _audits(reports: Path) -> Iterator[PublishedAudit]:
    for folder in reports.glob("cluster=*/date=*"):
        cluster = folder.parent.name.removeprefix("cluster=")
        # Other folders are not ours, whatever they hold: no audit writes such names.
        with suppress(ValueError):
            day = dt.date.fromisoformat(folder.name.removeprefix("date="))
            if re.fullmatch(_NAME, cluster):
                yield PublishedAudit(cluster, day, tuple(sorted(_files(folder))))


def _files(folder: Path) -> Iterator[str]:
    return (p.name for p in folder.iterdir() if p.is_file() and re.fullmatch(_NAME, p.name))


def published_file(warehouse: Path, cluster: str, day: dt.date, name: str) -> Path | None:
    """Return a file of a published audit; None where there is none inside the warehouse.

    Names are looked up among what the folders hold, never joined to a path unseen; a link that
    leads out of the reports counts as none.
    """
    for audit in published_audits(warehouse):
        if (audit.cluster, audit.day) == (cluster, day) and name in audit.files:
            reports = (warehouse / "reports").resolve()
            path = (reports / f"cluster={cluster}" / f"date={day}" / name).resolve()
            return path if path.is_relative_to(reports) else None
    return None


def create_app(warehouse: Path) -> FastAPI:
    """Return the pages over ``warehouse``, each for users who may read runs of the DAG only."""
    may_read_runs = requires_access_dag(
        method="GET", access_entity=DagAccessEntity.RUN, param_dag_id=DAG_ID
    )
    app = FastAPI(
        title="Quota audits",
        dependencies=[Depends(may_read_runs)],
        # Airflow's guard of a sub-app's routes does not reach these three.
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
    )

    @app.get("/", response_class=HTMLResponse)
    def list_audits() -> Response:
        page = _PAGE.render(
            audits=published_audits(warehouse), pages=PAGES, dag_id=DAG_ID, warehouse=warehouse
        )
        return HTMLResponse(page, headers=_HEADERS)

    @app.get("/explain", response_class=HTMLResponse)
    def explain(request: Request) -> Response:
        # Imported here: Airflow imports this module into every one of its processes.
        from spark_jobs.jobs.explain_page import answer

        page, status = answer(warehouse, dict(request.query_params))
        return HTMLResponse(page, status, headers=_FORM_HEADERS)

    @app.get("/reports/{cluster}/{day}/{name}", response_class=FileResponse)
    def read_file(
        cluster: Annotated[str, PathParameter(pattern=_NAME)],
        day: dt.date,
        name: Annotated[str, PathParameter(pattern=_NAME)],
    ) -> Response:
        path = published_file(warehouse, cluster, day, name)
        if path is None:
            raise HTTPException(404, f"no {name} is published for {cluster} on {day}")
        if path.suffix == ".html":
            return FileResponse(path, media_type="text/html", headers=_HEADERS)
        return FileResponse(path, media_type="text/plain", filename=name, headers=_HEADERS)

    return app


class QuotaAuditPlugin(AirflowPlugin):
    """Puts the pages below ``/quota-audit`` and an item into the Browse menu."""

    name = "quota_audit_plugin"
    fastapi_apps = [  # noqa: RUF012 - Airflow reads plain class attributes
        {
            "app": create_app(DailyAuditSettings().warehouse),
            "url_prefix": URL_PREFIX,
            "name": "Quota audits",
        }
    ]
    external_views = [  # noqa: RUF012
        {
            "name": "Quota audits",
            # No leading slash: a path in Airflow's base URL is kept.
            "href": f"{URL_PREFIX.removeprefix('/')}/",
            "destination": "nav",
            "category": "browse",
            "url_route": "quota-audits",
        }
    ]
