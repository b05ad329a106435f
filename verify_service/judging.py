"""What a pass says of one sequence: which guesses stand, what follows them, and what is told about both."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass

from torch import Tensor

from common.draft_types import Block
from common.errors import InvalidRequest, TandemError
from common.states import StateTail
from common.types import Mode, Origin, Provenance, TokenLogprobs
from verify_service.acceptance import Acceptance, TargetRows, Verdict
from verify_service.acceptance.lossy import Deviation, deviations
from verify_service.logprobs import token_logprobs
from verify_service.scheduler import Work
from verify_service.segments import likeliest_ahead
from verify_service.tracing import Beliefs, beliefs

_NO_GUESSES = Block(block_id=0, base_length=0, token_ids=())


@dataclass(frozen=True, slots=True)
class Judged:
    """
    Attributes:
        deviations: of the guesses that stand under a lossy policy.
        ahead: what is likeliest after the rows that look ahead.
        beliefs: None: nobody asked for them.
    """

    verdict: Verdict
    logprobs: tuple[TokenLogprobs, ...] = ()
    deviations: tuple[Deviation, ...] = ()
    ahead: tuple[int, ...] = ()
    beliefs: Beliefs | None = None


@dataclass(frozen=True, slots=True)
class Judge:
    """``acceptance``: what judges where no policy does; ``token_text``: the bytes of a token."""

    acceptance: Mapping[Mode, Acceptance]
    token_text: Callable[[int], bytes]

    def __call__(self, item: Work, logits: Tensor) -> Judged | TandemError:
        """
        Args:
            logits: [guesses + 1, and rows that look ahead; vocabulary].

        Returns:
            An error for a sequence that cannot go on: a grammar beyond its limits is that sequence's affair.
        """
        sequence, block = item.sequence, item.block or _NO_GUESSES
        logits, ahead = logits[: 1 + len(block.token_ids)], likeliest_ahead(item, logits)
        sampling, allowed = sequence.request.sampling, sequence.allowed
        try:
            if allowed:
                allowed.follow(sequence.tokens, sequence.prompt_length)
            target = TargetRows(
                logits, sampling, sequence.tokens, sequence.prompt_length, block, allowed=allowed
            )
            accept = sequence.policy.accept if sequence.policy else self.acceptance[sequence.mode]
            verdict = accept(target, block, sequence.seed)
            strayed = deviations(target, block, sequence.seed, verdict) if sequence.policy else ()
            asked = sequence.trace or sequence.notes.sampled
            believed = beliefs(target, block, verdict) if asked else None
        except InvalidRequest as error:
            return error
        return Judged(verdict, self._logprobs(item, verdict, logits), strayed, ahead, believed)

    def _logprobs(self, item: Work, verdict: Verdict, logits: Tensor) -> tuple[TokenLogprobs, ...]:
        num_top = item.sequence.request.top_logprobs
        if num_top is None:
            return ()
        rows = logits[[0, *(node + 1 for node in verdict.nodes)]]
        return token_logprobs(rows, decided(item, verdict), num_top, self.token_text)


def decided(item: Work, verdict: Verdict) -> tuple[int, ...]:
    """The guesses that stand and the target's own token after them."""
    return (*(item.guesses[node] for node in verdict.nodes), verdict.token)


def provenance_of(item: Work, verdict: Verdict) -> tuple[Provenance, ...]:
    """Of each token that was decided."""
    if item.block is None or not item.guesses:
        return (Provenance(Origin.TARGET),)
    block, last_node = item.block, verdict.nodes[-1] if verdict.nodes else -1
    drafted = (Provenance(Origin.DRAFT, block.source_of(node)) for node in verdict.nodes)
    refused = block.tree.index(last_node) if last_node in block.tree else None  # the first drafted there
    if refused is None:
        return (*drafted, Provenance(Origin.BONUS))
    return (*drafted, Provenance(Origin.CORRECTED, block.source_of(refused)))


def keep_states(item: Work, start: int, judged: Judged | TandemError | None, hidden: Tensor) -> None:
    """Of the committed tokens of a pass and the guesses that stand."""
    nodes: Seq[int] = judged.verdict.nodes if isinstance(judged, Judged) else ()
    rows = hidden[[*range(item.count), *(item.count + node for node in nodes)]]
    if item.sequence.states is None:
        item.sequence.states = StateTail(rows.shape[1])
    item.sequence.states.put(start, rows)
