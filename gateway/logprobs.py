"""Log-probabilities in the shapes of OpenAI's two endpoints."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from common.types import ScoredToken, TokenLogprobs

Json = dict[str, Any]


def text(token: ScoredToken) -> str:
    """Bytes that are no whole characters show as replacement characters; ``bytes`` has them as they are."""
    return token.text.decode(errors="replace")


def chat(tokens: Sequence[TokenLogprobs]) -> Json:
    content = [{**_scored(t.chosen), "top_logprobs": [_scored(top) for top in t.top]} for t in tokens]
    return {"content": content, "refusal": None}


def _scored(token: ScoredToken) -> Json:
    return {"token": text(token), "logprob": token.logprob, "bytes": list(token.text)}


def completion(tokens: Sequence[TokenLogprobs], offset: int) -> Json:
    """``offset``: in characters, of the first token in the text."""
    texts = [text(t.chosen) for t in tokens]
    return {
        "tokens": texts,
        "token_logprobs": [t.chosen.logprob for t in tokens],
        "top_logprobs": [{text(top): top.logprob for top in (t.chosen, *t.top)} for t in tokens],
        "text_offset": list(accumulate(map(len, texts), initial=offset))[:-1],
    }
