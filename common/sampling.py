"""The only code that turns logits into probabilities and probabilities into tokens.

The draft's q and the target's p both come from here, so a draft that knows the parameters proposes from the
distribution the target will judge by.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor

from common import noise
from common.allowed import Allowed
from common.draft_types import SparseDistribution
from common.types import SamplingParams

MAX_SUPPORT = 64
_FEW = 1024
_SPARSE = 8


def adjust(
    logits: Tensor,
    params: SamplingParams,
    committed: Sequence[int],
    prompt_length: int,
    paths: Sequence[Sequence[int]],
    *,
    allowed: Allowed | None = None,
) -> Tensor:
    """Leave out what is not allowed, then apply penalties, then bias.

    The mask comes first, so that top-k and top-p choose among the tokens that may come and cannot leave none
    of them.

    Args:
        logits: [rows, vocabulary].
        committed: the sequence's tokens, its prompt first.
        prompt_length: how many of them are the prompt; frequency and presence count the rest only.
        paths: for each row the drafted tokens between the committed ones and the row's position.
        allowed: has followed the committed tokens; None: every token may come.

    Returns:
        float64 [rows, vocabulary], a copy; -inf where a token may not come.
    """
    adjusted = logits.to(torch.float64, copy=True)
    if allowed:
        for row, path in zip(adjusted, paths, strict=True):
            if (mask := allowed.mask_after(path)) is not None:
                row.masked_fill_(~mask.to(row.device), -torch.inf)
    if params.penalised:
        _penalise(adjusted, params, committed, prompt_length, paths)
    if params.logit_bias:
        ids = torch.tensor(list(params.logit_bias), dtype=torch.int64, device=logits.device)
        adjusted[:, ids] += torch.tensor(list(params.logit_bias.values()), dtype=torch.float64).to(ids.device)
    return adjusted


def changes_nothing(params: SamplingParams, allowed: Allowed | None) -> bool:
    """Whether ``adjust`` returns the logits as they are."""
    return not (params.penalised or params.logit_bias or allowed)


def _penalise(
    adjusted: Tensor,
    params: SamplingParams,
    committed: Sequence[int],
    prompt_length: int,
    paths: Sequence[Sequence[int]],
) -> None:
    prompt, output = committed[:prompt_length], committed[prompt_length:]
    for row, path in zip(adjusted, paths, strict=True):
        written = Counter([*output, *path])
        seen = torch.tensor([*{*prompt, *written}], dtype=torch.int64, device=row.device)
        repeated = row[seen]
        row[seen] = torch.where(
            repeated > 0, repeated / params.repetition_penalty, repeated * params.repetition_penalty
        )
        token_ids = torch.tensor([*written], dtype=torch.int64, device=row.device)
        counts = torch.tensor([*written.values()], dtype=torch.float64, device=row.device)
        row[token_ids] -= params.frequency_penalty * counts + params.presence_penalty


def probabilities(adjusted: Tensor, params: SamplingParams) -> Tensor:
    """Apply temperature, top-k, top-p, min-p, each to what the one before left.

    Args:
        adjusted: float64 [rows, vocabulary], as ``adjust`` returns it.

    Returns:
        float64 [rows, vocabulary], rows summing to 1; one-hot at the argmax when greedy. Tokens tied at a
        threshold all stay.
    """
    if params.greedy:
        return torch.nn.functional.one_hot(adjusted.argmax(-1), adjusted.shape[-1]).to(torch.float64)
    # Relative to the largest, so that a tiny temperature leads to zeros and not to infinity less infinity.
    scaled = (adjusted - adjusted.amax(-1, keepdim=True)) / params.temperature
    if 0 < params.top_k < scaled.shape[-1]:
        threshold = adjusted.topk(params.top_k).values[:, -1:]
        scaled = scaled.masked_fill(adjusted < threshold, -torch.inf)
    probs = scaled.softmax(-1)
    if params.top_p < 1:
        probs = _renormalise(probs.masked_fill(probs < _top_p_threshold(probs, params.top_p), 0))
    if params.min_p > 0:
        probs = _renormalise(probs.masked_fill(probs < params.min_p * probs.amax(-1, keepdim=True), 0))
    return probs


def _top_p_threshold(probs: Tensor, top_p: float) -> Tensor:
    """The smallest probability within the fewest tokens that hold ``top_p`` of the mass. [rows, 1]

    A few likely tokens mostly hold it, and sorting them alone is far cheaper.
    """
    for count in (min(_FEW, probs.shape[-1]), probs.shape[-1]):
        ordered = probs.topk(count).values
        before = ordered.cumsum(-1) - ordered
        kept = (before < top_p).sum(-1, keepdim=True).clamp_(min=1)
        if bool((kept < count).all()):
            break
    return ordered.gather(-1, kept - 1)


def _renormalise(probs: Tensor) -> Tensor:
    return probs / probs.sum(-1, keepdim=True)


def choose(probs: Tensor, seed: int, position: int) -> int:
    """The token that ``probs`` yields at ``position`` under the noise of ``seed``.

    Args:
        probs: float64 [vocabulary], not necessarily normalised.
    """
    size = len(probs)
    if int(probs.count_nonzero()) > size // _SPARSE:  # picking most of it costs more than all of the noise
        return int((noise.exponentials(seed, position, torch.arange(size)) / probs.cpu()).argmin())
    support = probs.nonzero().squeeze(-1)
    if len(support) == 1:
        return int(support)
    race = noise.exponentials(seed, position, support) / probs[support]
    return int(support[race.argmin()])


def choose_sparse(distribution: SparseDistribution, seed: int, position: int, draw: int = 0) -> int:
    """``choose`` from a few tokens with their probabilities; ``draw`` as in ``noise.exponentials``."""
    token_ids = torch.tensor(distribution.token_ids, dtype=torch.int64)
    weights = torch.tensor(distribution.probabilities, dtype=torch.float64)
    race = noise.exponentials(seed, position, token_ids, draw) / weights
    return distribution.token_ids[int(race.argmin())]


def draft_distribution(probs: Tensor, support: int = MAX_SUPPORT) -> SparseDistribution:
    """What a draft samples from and declares: its ``support`` likeliest tokens, renormalised.

    The probabilities are rounded to the float32 that crosses the wire, so both ends hold the same q.

    Args:
        probs: float64 [vocabulary].
    """
    top = probs.topk(min(support, probs.shape[-1]))
    keep = top.values > 0
    values = (top.values[keep] / top.values[keep].sum()).to(torch.float32)
    keep_nonzero = values > 0
    token_ids = top.indices[keep][keep_nonzero]
    return SparseDistribution(tuple(token_ids.tolist()), tuple(values[keep_nonzero].tolist()))


def without(distribution: SparseDistribution, token_id: int) -> SparseDistribution | None:
    """What a further sibling is drawn from: the rest, renormalised; None where nothing is left.

    Rounded to the float32 that crosses the wire.
    """
    rest = [
        (other, probability)
        for other, probability in zip(distribution.token_ids, distribution.probabilities, strict=True)
        if other != token_id
    ]
    if not rest:
        return None
    weights = torch.tensor([probability for _, probability in rest], dtype=torch.float64)
    values = (weights / weights.sum()).to(torch.float32).tolist()
    return SparseDistribution(tuple(other for other, _ in rest), tuple(values))


def residual(target: Tensor, draft: SparseDistribution) -> Tensor:
    """norm(max(0, p - q)), what a rejected guess is replaced from.

    Leviathan et al. 2023, "Fast Inference from Transformers via Speculative Decoding", algorithm 1.

    Args:
        target: float64 [vocabulary], p.
        draft: q; its probabilities are normalised in float64, as the race that sampled from them does.
    """
    token_ids = torch.tensor(draft.token_ids, dtype=torch.int64, device=target.device)
    q = torch.tensor(draft.probabilities, dtype=torch.float64, device=target.device)
    left = target.clone()
    left[token_ids] -= q / q.sum()
    left.clamp_(min=0)
    total = left.sum()
    return left / total if total > 0 else target
