"""Airflow pages "Quota audits": for whoever may read the DAG's runs, and for nobody else.

Airflow imports every module below its plugins folder into every one of its processes, under the
module's bare name: hence one file, a distinctive name, and no import that costs time. Routes of a
plugin are public unless a dependency guards them: the app itself carries the guards, so that no
route can be added without them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.core_api.security import get_user, requires_access_dag
from airflow.plugins_manager import AirflowPlugin
from fastapi import Depends, FastAPI, HTTPException, Request

from quota_pages.router import page_router
from spark_jobs.settings import DailyAuditSettings

DAG_ID = "quota_audit_daily"
URL_PREFIX = "/quota-audit"
_ONLY_READ = frozenset({"GET", "HEAD", "OPTIONS"})
_OWN_SITE = frozenset({"same-origin", "none"})


def refuse_cross_site(request: Request) -> None:
    """Refuse what could change something and does not come from these pages: HTTP 403.

    The login is a cookie, which browsers send along with other sites' forms too; they say where a
    request comes from (W3C Fetch Metadata).
    """
    if request.method in _ONLY_READ:
        return
    if request.headers.get("sec-fetch-site") not in _OWN_SITE:
        raise HTTPException(403, "this request does not come from the pages of Quota audits")


def signed_in(user: Annotated[BaseUser, Depends(get_user)]) -> str:
    """Return the name of who is signed in to Airflow."""
    return user.get_name()


def create_app(warehouse: Path) -> FastAPI:
    """Return the pages over ``warehouse``, each for users who may read runs of the DAG only."""
    may_read_runs = requires_access_dag(
        method="GET", access_entity=DagAccessEntity.RUN, param_dag_id=DAG_ID
    )
    app = FastAPI(
        title="Quota audits",
        dependencies=[Depends(may_read_runs), Depends(refuse_cross_site)],
        # Airflow's guard of a sub-app's routes does not reach these three.
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
    )
    # Who may start an audit may also say what is known of its findings.
    may_start_runs = requires_access_dag(
        method="POST", access_entity=DagAccessEntity.RUN, param_dag_id=DAG_ID
    )
    app.include_router(page_router(warehouse, DAG_ID, [Depends(may_start_runs)], signed_in))
    return app


def _view(destination: str, query: str = "") -> dict[str, str]:
    # No leading slash: a path in Airflow's base URL is kept.
    view = {
        "name": "Quota audits" if destination == "nav" else "Quota audit",
        "href": f"{URL_PREFIX.removeprefix('/')}/{query}",
        "destination": destination,
        "url_route": "quota-audits" if destination == "nav" else f"quota-audit-{destination}",
    }
    return view | {"category": "browse"} if destination == "nav" else view


class QuotaAuditPlugin(AirflowPlugin):
    """Puts the pages below ``/quota-audit``, in the Browse menu, and beside runs and tasks."""

    name = "quota_audit_plugin"
    fastapi_apps = [  # noqa: RUF012 - Airflow reads plain class attributes
        {
            "app": create_app(DailyAuditSettings().warehouse),
            "url_prefix": URL_PREFIX,
            "name": "Quota audits",
        }
    ]
    external_views = [  # noqa: RUF012
        _view("nav"),
        _view("dag_run", "?run_id={RUN_ID}"),
        _view("task_instance", "?run_id={RUN_ID}&task_id={TASK_ID}"),
    ]
