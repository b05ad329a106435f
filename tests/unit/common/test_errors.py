"""One tree of errors, one mapping to gRPC and to OpenAI's error object."""

from __future__ import annotations

import grpc
import pytest

from common import errors
from common.errors import ConfigError, Internal, InvalidRequest, TandemError, from_grpc

ALL = [kind for kind in TandemError.__subclasses__() if kind.__module__ == errors.__name__]
# A bad configuration stops its service before it can tell a peer.
KINDS = [kind for kind in ALL if kind is not ConfigError]
OURS = {kind.grpc_status for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_is_found_again_from_its_grpc_status(kind: type[TandemError]) -> None:
    error = from_grpc(kind.grpc_status, "why", "where")
    assert type(error) is kind
    assert (error.message, error.field) == ("why", "where")


@pytest.mark.parametrize("attribute", ["grpc_status", "http_status", "code"])
def test_no_two_errors_share_a_status_or_a_code(attribute: str) -> None:
    values = [getattr(kind, attribute) for kind in KINDS]
    assert len(set(values)) == len(values)


@pytest.mark.parametrize("status", [s for s in grpc.StatusCode if s not in OURS])
def test_a_status_that_is_none_of_ours_is_an_internal_error(status: grpc.StatusCode) -> None:
    assert type(from_grpc(status, "why", None)) is Internal


@pytest.mark.parametrize("kind", KINDS)
def test_the_openai_object_has_message_type_param_and_code(kind: type[TandemError]) -> None:
    assert kind("why", field="where").to_openai() == {
        "error": {"message": "why", "type": kind.openai_type, "param": "where", "code": kind.code}
    }


def test_the_openai_object_of_an_error_without_a_field_has_param_null() -> None:
    assert InvalidRequest("why").to_openai()["error"] == {
        "message": "why",
        "type": "invalid_request_error",
        "param": None,
        "code": "invalid_request",
    }


@pytest.mark.parametrize("kind", KINDS)
def test_the_clients_faults_are_4xx_and_ours_are_5xx(kind: type[TandemError]) -> None:
    ours = kind.openai_type == "server_error" and kind.http_status >= 500
    assert ours or 400 <= kind.http_status < 500


def test_every_error_is_drawn_in_the_tree_of_the_module() -> None:
    drawn = errors.__doc__ or ""
    for kind in ALL:
        line = next(line for line in drawn.splitlines() if f" {kind.__name__} " in line)
        if kind is not ConfigError:
            assert str(kind.http_status) in line
            assert kind.grpc_status.name in line
