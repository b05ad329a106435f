"""One JSON object per line: requests on standard input, times on standard output.

``{"prompts": […], "streams": k, "max_tokens": n}`` is answered when every prompt is, ``{"token_ids": […]}``
when the first token after them is there; both with ``{"tokens": n, "seconds": s}``. The first line out is
``{}``: the engine is loaded.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any, Protocol


class Engine(Protocol):
    def answer(self, prompts: list[str], streams: int, max_tokens: int) -> int:
        """Answer all prompts greedily, through the chat template, at most ``streams`` at a time.

        Returns:
            how many tokens the answers have.
        """
        ...

    def prefill(self, token_ids: list[int]) -> None:
        """Make the first token after ``token_ids``."""
        ...


def serve(load: Callable[[], Engine]) -> None:
    """Until standard input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the libraries print goes to the log
    engine = load()
    print("{}", file=answers, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        started = time.perf_counter()
        tokens = _run(engine, request)
        seconds = time.perf_counter() - started
        print(json.dumps({"tokens": tokens, "seconds": seconds}), file=answers, flush=True)


def _run(engine: Engine, request: dict[str, Any]) -> int:
    if "token_ids" in request:
        engine.prefill(request["token_ids"])
        return 1
    return engine.answer(request["prompts"], request["streams"], request["max_tokens"])
