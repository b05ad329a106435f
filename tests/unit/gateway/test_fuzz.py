"""Whatever JSON comes in, the answer is a result or names what is wrong with it: never a fault of ours."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from common.codec import generate_to_proto
from common.errors import InvalidRequest
from gateway.schema import ChatBody, CompletionBody, parse
from gateway.translate import to_generate
from tests.unit.gateway.fakes import MODEL
from tests.unit.gateway.requests import CHAT, COMPLETIONS

FIELDS = sorted(ChatBody.model_fields.keys() | CompletionBody.model_fields.keys())

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just(10**30)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
)
messages = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(["user", "system", "tool"]), "content": values}),
    max_size=3,
)
bodies = st.fixed_dictionaries(
    {"model": st.just(MODEL)},
    optional={name: values for name in FIELDS if name not in ("model", "messages")}
    | {"messages": messages | values},
)


@given(body=bodies | values)
@settings(max_examples=150, deadline=None)
def test_a_body_is_either_refused_or_fits_the_wire(body: Any) -> None:
    kinds: tuple[type[ChatBody | CompletionBody], ...] = (ChatBody, CompletionBody)
    for kind in kinds:
        try:
            request = to_generate(parse(kind, json.dumps(body).encode()), "request-1")
        except InvalidRequest:
            continue
        generate_to_proto(request).SerializeToString()


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
@given(body=bodies | values)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_no_json_is_answered_with_a_fault(client: httpx.AsyncClient, path: str, body: Any) -> None:
    response = await client.post(path, content=json.dumps(body))
    assert response.status_code in (200, 400, 404, 413), response.text
    if response.status_code != 200:
        assert response.json()["error"]["message"]
