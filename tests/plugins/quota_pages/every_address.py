"""Every address of an app of pages: its own routes, filled in with what a day holds."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from fastapi import FastAPI
from fastapi.routing import APIRoute

from quota_pages.entities_page import entities_of
from quota_pages.router import page_router
from spark_jobs.publish.read_facts import findings_of
from spark_jobs.warehouse.scope import RunScope

if TYPE_CHECKING:
    from fastapi.testclient import TestClient

DAG_ID = "quota_audit_daily"
_QUERIES = {"/clusters/{cluster}/{day}/finding": "?id={finding}"}
_NAMES = {"/static/": "chart.js", "/reports/": "report.html", "/data_docs/": "index.html"}


def pages_app(warehouse: Path) -> FastAPI:
    """Return the pages without Airflow, so without a login."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    app.include_router(page_router(warehouse, DAG_ID))
    return app


def client_of(app: FastAPI) -> TestClient:
    """Return a client that follows no redirect."""
    with warnings.catch_warnings():
        # Of the HTTP library that it is made with.
        warnings.simplefilter("ignore")
        from fastapi.testclient import TestClient
    return TestClient(app, follow_redirects=False)


def every_address(app: FastAPI, scope: RunScope) -> dict[str, str]:
    """Return route → an address of it that the day of ``scope`` has an answer for.

    A new route is among them by itself; one with a parameter of a new name is a KeyError.
    """
    routes = [route.path for route in app.routes if isinstance(route, APIRoute)]
    assert len(routes) == len(app.routes), "what is no APIRoute would go untested"
    return {route: _address(route, scope) for route in routes}


def _address(route: str, scope: RunScope) -> str:
    entity, finding = entities_of(scope)[0], findings_of(scope)[0]
    names = (name for start, name in _NAMES.items() if route.startswith(start))
    template = route.replace(":path}", "}") + _QUERIES.get(route, "")
    return template.format_map(
        {
            "cluster": scope.cluster,
            "day": scope.day,
            "finding": finding.finding_id,
            "name": next(names, entity.entity_id),
        }
    )
