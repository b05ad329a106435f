"""``python -m bench.trace PROMPT``: ask a running stack and show how the answer came to be.

With ``--answer FILE`` (``-``: standard input) it shows a saved answer of ``/v1/chat/completions`` or
``/v1/completions`` that was asked for with ``"speculation": {"trace": true}``.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import httpx
from rich.console import Console

from bench.measure import MODEL, chat_body
from bench.trace import rendering

Json = dict[str, Any]


def main() -> None:
    options = _options()
    try:
        answer = _saved(options.answer) if options.answer else _asked(options)
        rendering.show(Console(), answer)
    except (OSError, ValueError, KeyError, httpx.HTTPError) as error:
        sys.exit(f"bench.trace: {_told(error)}")


def _saved(name: str) -> Json:
    text = sys.stdin.read() if name == "-" else Path(name).read_text()
    answer: Json = json.loads(text)
    return answer


def _asked(options: argparse.Namespace) -> Json:
    body = chat_body(
        options.prompt,
        options.max_tokens,
        {**options.speculation, "trace": True},
        model=options.model,
        temperature=options.temperature,
    )
    response = httpx.post(f"{options.url}/v1/chat/completions", json=body, timeout=600)
    if response.is_error:
        raise ValueError(response.text)
    answer: Json = response.json()
    return answer


def _told(error: Exception) -> str:
    if isinstance(error, httpx.ConnectError):
        return "nobody answers there; `make serve` starts a stack, --url says where one is"
    if isinstance(error, KeyError):
        return f"an answer without {error}: was it asked for with a trace?"
    return str(error)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.trace", description=__doc__)
    parser.add_argument("prompt", nargs="?")
    parser.add_argument("--answer", metavar="FILE", help="show this one instead")
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--model", default=MODEL)
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--speculation", type=json.loads, default={}, help="more of that field, as JSON")
    options = parser.parse_args()
    if bool(options.prompt) == bool(options.answer):
        parser.error("give either a prompt or --answer")
    return options


if __name__ == "__main__":
    main()
