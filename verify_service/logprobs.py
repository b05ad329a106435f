"""Log-probabilities of committed tokens, from the target's raw logits."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from common.types import ScoredToken, TokenLogprobs

_LOWEST = -9999.0  # JSON has no infinity

TokenText = Callable[[int], bytes]


def token_logprobs(
    logits: Tensor, token_ids: Sequence[int], num_top: int, text: TokenText
) -> tuple[TokenLogprobs, ...]:
    """For each token how likely it and the ``num_top`` likeliest ones were, before penalties, bias, masks and
    temperature.

    Args:
        logits: [tokens, vocabulary]; row i is what token i was chosen from.
    """
    scores = logits.to(torch.float32, copy=True).log_softmax(-1).clamp_(min=_LOWEST)
    chosen = scores.gather(-1, torch.tensor(token_ids, device=scores.device)[:, None])[:, 0].tolist()
    top = scores.topk(num_top)
    rows = zip(token_ids, chosen, top.indices.tolist(), top.values.tolist(), strict=True)
    return tuple(
        TokenLogprobs(
            ScoredToken(token_id, score, text(token_id)),
            tuple(ScoredToken(i, s, text(i)) for i, s in zip(top_ids, top_scores, strict=True)),
        )
        for token_id, score, top_ids, top_scores in rows
    )
