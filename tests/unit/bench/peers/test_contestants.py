"""Servers and workers answer the same questions."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import httpx
import pytest

from bench.peers import engines, environments, processes
from bench.peers.contestant import Row, Server, Worker

WORKER = """
import sys
from bench.peers.workers import lines

class Engine:
    def answer(self, prompts, streams, max_tokens):
        print("noise on standard output")
        return streams * max_tokens * len(prompts)

    def prefill(self, token_ids):
        if not token_ids:
            sys.exit("nothing to prefill")

lines.serve(Engine)
"""


class Api:
    """An OpenAI server that answers each prompt with as many tokens as it has letters."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, object]] = []
        self.at_once = self.most_at_once = 0

    async def __call__(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content)
        self.bodies.append(body)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(0.01)
        self.at_once -= 1
        text = body["prompt"] if "prompt" in body else body["messages"][0]["content"]
        return httpx.Response(200, json={"usage": {"completion_tokens": len(text)}})


def server(api: Api) -> Server:
    client = httpx.AsyncClient(transport=httpx.MockTransport(api), base_url="http://server")
    return Server(Row("server"), client, "model", {"speculation": {"enabled": False}})


async def test_a_server_gets_as_many_prompts_at_once_as_there_are_streams() -> None:
    api = Api()
    answered = await server(api).answer(["a", "bb", "ccc", "dddd"], streams=3, max_tokens=7)
    assert answered.tokens == 10
    assert answered.seconds >= 0.02
    assert api.most_at_once == 3
    assert api.bodies[0]["temperature"] == 0
    assert api.bodies[0]["max_tokens"] == 7
    assert api.bodies[0]["speculation"] == {"enabled": False}


async def test_a_prefill_is_one_token_after_the_ids() -> None:
    api = Api()
    assert await server(api).prefill(range(3)) >= 0.01
    assert (api.bodies[0]["prompt"], api.bodies[0]["max_tokens"]) == ([0, 1, 2], 1)


async def test_a_server_that_refuses_is_an_error() -> None:
    transport = httpx.MockTransport(lambda request: httpx.Response(400))
    client = httpx.AsyncClient(transport=transport, base_url="http://server")
    with pytest.raises(httpx.HTTPStatusError):
        await Server(Row("server"), client, "model").answer(["a"], 1, 1)


async def test_a_worker_speaks_lines_and_its_library_may_print() -> None:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", WORKER, stdin=pipe, stdout=pipe)
    contestant = Worker(Row("worker"), process)
    assert await contestant.reply(60) == {}
    answered = await contestant.answer(["a", "b"], streams=8, max_tokens=5)
    assert answered.tokens == 80
    assert answered.seconds >= 0
    assert await contestant.prefill([1, 2]) >= 0
    with pytest.raises(RuntimeError, match="worker has gone"):
        await contestant.prefill([])
    await process.wait()


async def test_a_server_that_ends_while_starting_says_why() -> None:
    with pytest.raises(RuntimeError, match="status 3") as failure:
        async with processes.server(
            [sys.executable, "-c", "import sys; print('no model', file=sys.stderr); sys.exit(3)"], {}
        ):
            pass
    assert failure.value.__notes__ == ["no model"]


def test_a_peer_that_is_not_set_up_is_absent_with_what_to_do(tmp_path: Path) -> None:
    found = environments.find(tmp_path)
    (tmp_path / "openvino").mkdir()
    (tmp_path / "openvino" / ".ready").touch()
    absent = {entry.row.name: entry.absent for entry in engines.peers(found, ["openvino", "vllm"])}
    assert absent["openvino int8 plain"] == ""
    assert absent["vllm bf16 lookup"] == "not set up: python -m bench.peers setup vllm"
    assert len(absent) == 6
