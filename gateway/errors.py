"""Errors only HTTP has, and how every error becomes a response."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

from pydantic import ValidationError
from starlette.responses import JSONResponse

from common.errors import InvalidRequest, NotFound, Overloaded, TandemError

RETRY_AFTER_SECONDS = 1
_MAX_FIELD_CHARACTERS = 200


class ModelNotFound(NotFound):
    code = "model_not_found"

    def __init__(self, model: str) -> None:
        super().__init__(f"the model {model[:_MAX_FIELD_CHARACTERS]!r} does not exist", field="model")


class MethodNotAllowed(TandemError):
    code = "method_not_allowed"
    http_status = 405
    openai_type = "invalid_request_error"


class PayloadTooLarge(TandemError):
    code = "payload_too_large"
    http_status = 413
    openai_type = "invalid_request_error"


def from_validation(error: ValidationError) -> InvalidRequest:
    """The first thing wrong with a body, its field as a dotted path."""
    first = error.errors(include_url=False, include_input=False)[0]
    path = [str(part) for part in first["loc"]]
    if path[-1:] == ["[key]"]:  # pydantic's mark for "the key itself is wrong"
        path.pop()
    field = ".".join(path)[:_MAX_FIELD_CHARACTERS]
    match first["type"]:
        case "json_invalid":
            return InvalidRequest(f"the body is not JSON: {first['msg']}")
        case "extra_forbidden":
            return InvalidRequest(f"{field} is not supported", field=field)
        case "missing":
            return InvalidRequest(f"{field} is required", field=field)
        case _ if not field:
            return InvalidRequest("the body must be a JSON object")
        case _:
            return InvalidRequest(f"{field}: {first['msg']}", field=field)


def from_http_status(status: int, path: str) -> TandemError:
    """The error behind a status that the web framework raised by itself."""
    match status:
        case HTTPStatus.NOT_FOUND:
            return NotFound(f"there is no {path[:_MAX_FIELD_CHARACTERS]}")
        case HTTPStatus.METHOD_NOT_ALLOWED:
            return MethodNotAllowed(f"{path[:_MAX_FIELD_CHARACTERS]} does not take this method")
        case _:
            return InvalidRequest(HTTPStatus(status).phrase)


def to_response(error: TandemError, headers: Mapping[str, str] | None = None) -> JSONResponse:
    retry = {"Retry-After": str(RETRY_AFTER_SECONDS)} if isinstance(error, Overloaded) else {}
    return JSONResponse(error.to_openai(), error.http_status, {**(headers or {}), **retry})
