"""The web application: routes and what becomes of errors."""

from __future__ import annotations

from fastapi import Depends, FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from common.errors import TandemError
from gateway.admission import Admission
from gateway.config import Config
from gateway.endpoints import Endpoints
from gateway.errors import from_http_status, to_response
from gateway.middleware import RequestContext
from gateway.planner import Planner
from gateway.readiness import Readiness
from gateway.router_client import RouterClient
from gateway.verify_client import VerifyClient


def create_app(config: Config, admission: Admission, router: RouterClient, verify: VerifyClient) -> FastAPI:
    """The gateway over the given clients, which the caller closes."""
    endpoints = Endpoints(config, admission, Planner(router), verify, Readiness(router.ready))
    app = FastAPI(openapi_url=None, redirect_slashes=False)
    app.add_middleware(RequestContext)
    app.add_exception_handler(TandemError, _tandem_error)
    app.add_exception_handler(HTTPException, _http_error)
    _add_routes(app, endpoints)
    return app


def _add_routes(app: FastAPI, endpoints: Endpoints) -> None:
    slot = [Depends(endpoints.slot)]
    app.add_api_route("/v1/chat/completions", endpoints.chat, methods=["POST"], dependencies=slot)
    app.add_api_route("/v1/completions", endpoints.complete, methods=["POST"], dependencies=slot)
    app.add_api_route("/v1/models", endpoints.models)
    app.add_api_route("/v1/models/{model:path}", endpoints.model)
    app.add_api_route("/livez", endpoints.alive)
    app.add_api_route("/readyz", endpoints.ready)
    app.add_api_route("/metrics", endpoints.metrics)


async def _tandem_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, TandemError)
    return to_response(error)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return to_response(from_http_status(error.status_code, request.url.path), error.headers)
