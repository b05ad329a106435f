"""Every error Tandem raises on purpose, and the one mapping to gRPC status and OpenAI error object.

TandemError
├── InvalidRequest       the request is wrong; ``field`` names where       400  INVALID_ARGUMENT
├── NotFound             no such model or route                            404  NOT_FOUND
├── FingerprintMismatch  draft and target disagree on the vocabulary       409  FAILED_PRECONDITION
├── Overloaded           the queue is full; try again later                429  RESOURCE_EXHAUSTED
├── Unavailable          starting, draining or unreachable                 503  UNAVAILABLE
├── TimedOut             no answer within the deadline                     504  DEADLINE_EXCEEDED
├── Cancelled            the client left                                   499  CANCELLED
├── Internal             a fault of ours                                   500  INTERNAL
└── ConfigError          a bad environment variable; stops the service
"""

from __future__ import annotations

from typing import ClassVar

import grpc


class TandemError(Exception):
    """An error with a stable ``code``; ``field`` names the request field or variable at fault."""

    code: ClassVar[str] = "internal_error"
    http_status: ClassVar[int] = 500
    grpc_status: ClassVar[grpc.StatusCode] = grpc.StatusCode.INTERNAL
    openai_type: ClassVar[str] = "server_error"

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.field = field

    def to_openai(self) -> dict[str, object]:
        """The body of an OpenAI error response."""
        return {
            "error": {
                "message": self.message,
                "type": self.openai_type,
                "param": self.field,
                "code": self.code,
            }
        }


class InvalidRequest(TandemError):
    code = "invalid_request"
    http_status = 400
    grpc_status = grpc.StatusCode.INVALID_ARGUMENT
    openai_type = "invalid_request_error"


class NotFound(TandemError):
    code = "not_found"
    http_status = 404
    grpc_status = grpc.StatusCode.NOT_FOUND
    openai_type = "invalid_request_error"


class FingerprintMismatch(TandemError):
    code = "fingerprint_mismatch"
    http_status = 409
    grpc_status = grpc.StatusCode.FAILED_PRECONDITION


class Overloaded(TandemError):
    code = "overloaded"
    http_status = 429
    grpc_status = grpc.StatusCode.RESOURCE_EXHAUSTED
    openai_type = "rate_limit_error"


class Unavailable(TandemError):
    code = "unavailable"
    http_status = 503
    grpc_status = grpc.StatusCode.UNAVAILABLE


class TimedOut(TandemError):
    code = "timed_out"
    http_status = 504
    grpc_status = grpc.StatusCode.DEADLINE_EXCEEDED


class Cancelled(TandemError):
    code = "cancelled"
    http_status = 499
    grpc_status = grpc.StatusCode.CANCELLED


class Internal(TandemError):
    pass


class ConfigError(TandemError):
    code = "bad_configuration"


_ON_THE_WIRE: tuple[type[TandemError], ...] = (
    InvalidRequest,
    NotFound,
    FingerprintMismatch,
    Overloaded,
    Unavailable,
    TimedOut,
    Cancelled,
    Internal,
)
_BY_GRPC_STATUS = {kind.grpc_status: kind for kind in _ON_THE_WIRE}


def from_grpc(status: grpc.StatusCode, message: str, field: str | None) -> TandemError:
    """The error that a peer's status stands for; ``Internal`` for a status of none of ours."""
    return _BY_GRPC_STATUS.get(status, Internal)(message, field=field)
