"""What an operator may set, as ``TANDEM_GATEWAY_<NAME>``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from common.config import LogLevel, Port

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Name = Annotated[str, Field(min_length=1)]


@dataclass(frozen=True, slots=True)
class Config:
    """``models`` are the names clients may ask for.

    ``max_body_bytes`` stays at half of what a gRPC message may hold, so that no body that passes here is
    too large once it is a protobuf message. ``request_timeout_seconds`` bounds reading the body and, from
    anew, the whole answer.
    """

    host: Name = "0.0.0.0"
    port: Port = 8000
    router_address: Name = "127.0.0.1:50051"
    models: Annotated[tuple[Name, ...], Field(min_length=1)] = ("smollm2-135m-instruct",)
    max_body_bytes: Annotated[int, Field(ge=1, le=8 << 20)] = 1 << 20
    max_concurrent: Annotated[int, Field(ge=1)] = 256
    max_choices: Annotated[int, Field(ge=1, le=128)] = 16
    request_timeout_seconds: Seconds = 600.0
    route_timeout_seconds: Seconds = 1.0
    drain_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 30.0
    log_level: LogLevel = "info"
