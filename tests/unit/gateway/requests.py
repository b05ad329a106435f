"""Bodies that tests send, and how they read what comes back."""

from __future__ import annotations

import json
from typing import Any

from tests.unit.gateway.fakes import MODEL

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"


def chat_body(**fields: Any) -> dict[str, Any]:
    return {"model": MODEL, "messages": [{"role": "user", "content": "Hi"}], **fields}


def completion_body(**fields: Any) -> dict[str, Any]:
    return {"model": MODEL, "prompt": "Once", **fields}


def sse_objects(body: str) -> list[Any]:
    """The events of a stream, ``[DONE]`` as that string."""
    assert body.endswith("\n\n")
    events = body.removesuffix("\n\n").split("\n\n")
    payloads = [event.removeprefix("data: ") for event in events]
    return [payload if payload == "[DONE]" else json.loads(payload) for payload in payloads]
