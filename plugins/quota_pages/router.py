"""The addresses of the pages. Airflow imports this in all its processes: nothing here is slow."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Depends, Form, HTTPException, Query, Request
from fastapi import Path as PathParameter
from fastapi.exceptions import RequestValidationError
from fastapi.params import Depends as DependsOn
from fastapi.responses import Response
from fastapi.routing import APIRoute

from quota_pages.addresses import ENTITY_PATTERN, Addresses
from spark_jobs.errors import BadInputError
from spark_jobs.warehouse.storage import CLUSTER_PATTERN

if TYPE_CHECKING:
    from quota_pages.answers import Answers

Cluster = Annotated[str, PathParameter(pattern=CLUSTER_PATTERN, max_length=200)]
FileName = Annotated[str, PathParameter(pattern=CLUSTER_PATTERN, max_length=200)]
FindingId = Annotated[str, Query(alias="id", max_length=400)]
_TEXT_LENGTH_MAX = 1000
Entity = Annotated[str, PathParameter(pattern=ENTITY_PATTERN)]
_AUDIT = "/clusters/{cluster}/{day}"


def _nobody() -> str:
    return ""


def page_router(
    warehouse: Path,
    dag_id: str,
    may_acknowledge: Sequence[DependsOn] = (),
    signed_in: Callable[..., str] = _nobody,
) -> APIRouter:
    """Return the routes over ``warehouse``; all only read, except the one that acknowledges.

    ``may_acknowledge`` refuse whom they do not let acknowledge a finding; ``signed_in``, a
    dependency too, is the name of who does.
    """
    user_name = Depends(signed_in)

    def answers(request: Request) -> Answers:
        from quota_pages.answers import Answers

        return Answers(warehouse, Addresses(request.scope.get("root_path", "")), dag_id)

    router = APIRouter(default_response_class=Response, route_class=_telling_of_damage(answers))

    @router.get("/")
    def overview(
        request: Request, run_id: str | None = None, task_id: str | None = None
    ) -> Response:
        return answers(request).overview(run_id, task_id)

    @router.get("/audits.csv")
    def outcomes(request: Request) -> Response:
        return answers(request).outcomes()

    @router.get("/explain")
    def explain(request: Request) -> Response:
        return answers(request).explain(_form(request))

    @router.get("/static/{name}")
    def static(name: FileName) -> Response:
        from quota_pages.answers import static_answer

        found = static_answer(name)
        if found is None:
            raise HTTPException(404, "no such file")
        return found

    @router.get("/reports/{cluster}/{day}/{name}")
    def published(request: Request, cluster: Cluster, day: dt.date, name: FileName) -> Response:
        return answers(request).file(cluster, day, name)

    @router.get("/data_docs/{name:path}")
    def data_docs(request: Request, name: str) -> Response:
        return answers(request).data_docs(name)

    _add_audit_pages(router, answers)

    @router.post(_AUDIT + "/finding", dependencies=list(may_acknowledge))
    def acknowledge(
        request: Request,
        cluster: Cluster,
        day: dt.date,
        finding_id: FindingId,
        owner: Annotated[str, Form(max_length=_TEXT_LENGTH_MAX)] = "",
        reason: Annotated[str, Form(max_length=_TEXT_LENGTH_MAX)] = "",
        until: Annotated[str, Form(max_length=_TEXT_LENGTH_MAX)] = "",
        user: str = user_name,
    ) -> Response:
        given = {"owner": owner, "reason": reason, "until": until}
        return answers(request).acknowledge(cluster, day, finding_id, given, user)

    return router


def _add_audit_pages(router: APIRouter, answers: Callable[[Request], Answers]) -> None:
    @router.get(_AUDIT)
    def audit(request: Request, cluster: Cluster, day: dt.date) -> Response:
        return answers(request).audit(cluster, day)

    @router.get(_AUDIT + "/entities")
    def entities(request: Request, cluster: Cluster, day: dt.date) -> Response:
        return answers(request).entities(cluster, day, _form(request))

    @router.get(_AUDIT + "/entities/{name}")
    def entity(request: Request, cluster: Cluster, day: dt.date, name: Entity) -> Response:
        return answers(request).entity(cluster, day, name, _form(request))

    @router.get(_AUDIT + "/history/{name}.csv")
    def history(request: Request, cluster: Cluster, day: dt.date, name: Entity) -> Response:
        return answers(request).history(cluster, day, name, _form(request))

    @router.get(_AUDIT + "/finding")
    def finding(
        request: Request,
        cluster: Cluster,
        day: dt.date,
        finding_id: FindingId,
    ) -> Response:
        return answers(request).finding(cluster, day, finding_id)

    @router.get(_AUDIT + "/recommendations")
    def recommendations(request: Request, cluster: Cluster, day: dt.date) -> Response:
        return answers(request).recommendations(cluster, day, _form(request))

    @router.get(_AUDIT + "/whatif")
    def whatif(request: Request, cluster: Cluster, day: dt.date) -> Response:
        return answers(request).whatif(cluster, day)

    @router.get(_AUDIT + "/quality")
    def quality(request: Request, cluster: Cluster, day: dt.date) -> Response:
        return answers(request).quality(cluster, day)


def _telling_of_damage(answers: Callable[[Request], Answers]) -> type[APIRoute]:
    """Return the class of routes that answer with a page where a file of the day is damaged.

    An address that names what cannot be, as a day that is none, is of no page.
    """

    class Route(APIRoute):
        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            handle = super().get_route_handler()

            async def answer(request: Request) -> Response:
                try:
                    return await handle(request)
                except BadInputError as error:
                    return answers(request).missing(str(error), status=500)
                except RequestValidationError:
                    if request.method != "GET":
                        raise
                    return answers(request).missing("There is no page of this address.")

            return answer

    return Route


def _form(request: Request) -> dict[str, list[str]]:
    names = dict.fromkeys(request.query_params)
    return {name: request.query_params.getlist(name) for name in names}
