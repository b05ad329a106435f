"""From a request to a sequence: tokenised, checked against what the target can do, defaults resolved."""

from __future__ import annotations

import asyncio
import random
import secrets
import uuid
from collections.abc import Iterable, Set
from dataclasses import dataclass, replace

from common import trees
from common.allowed import FOR_EVER, Allowed
from common.errors import InvalidRequest
from common.model.tokenizer import Tokenizer
from common.types import (
    LOSSLESS,
    DraftEndpoint,
    FactCheck,
    GenerateRequest,
    Mode,
    PolicyChoice,
    Prompt,
    Stopping,
)
from verify_service.acceptance import embedding, policies
from verify_service.acceptance.lossy import Policy
from verify_service.constraints import Constraints
from verify_service.facts import FactCheckSession
from verify_service.feedback.notes import Notes
from verify_service.output import Output
from verify_service.sequence import Sequence
from verify_service.tracing import Recorder
from verify_service.validators import registry
from verify_service.validators.answer import AnswerText, Vetted
from verify_service.validators.vetting import Vetting

_LOSSLESS = PolicyChoice(LOSSLESS)


@dataclass(frozen=True, slots=True)
class Admission:
    """
    Attributes:
        context_length: most tokens of prompt and answer together.
        block_size: guesses per block where a request does not say.
        tree_width: guesses after the same text where a request does not say.
        fact_checks: whether verdicts can be had.
        constraints: None: this target cannot be held to a grammar.
        policy: of requests that name none.
        vetting: None: drafts are shown to no validator here.
        own_draft: who drafts where the plan names nobody; None: nobody. What it guesses is not published, so
            answers that are checked do without.
        sampled: share of answers that are looked at more closely for the feedback.
    """

    tokenizer: Tokenizer
    model_name: str
    system_fingerprint: str
    vocabulary_size: int
    context_length: int
    eos_token_ids: Set[int]
    block_size: int
    max_block_size: int
    fact_checks: bool
    constraints: Constraints | None = None
    tree_width: int = 1
    max_tree_width: int = trees.MAX_WIDTH
    vetting: Vetting | None = None
    own_draft: DraftEndpoint | None = None
    policy: PolicyChoice = _LOSSLESS
    sampled: float = 0.0

    async def sequence(self, request: GenerateRequest) -> Sequence:
        """Raises InvalidRequest naming the field that cannot be served."""
        request = self._drafted(request)
        prompt = await self.tokenize(request.prompt)
        self._check(request, prompt)
        seed = request.sampling.seed
        policy = await self._policy(request)
        # What a watched draft is worth shows only where its guesses are compared with the target's choice.
        mode = Mode.KEYED if policy or request.terms.shadow else _mode(request)
        most = self.context_length - len(prompt)
        max_tokens = min(request.stopping.max_tokens or most, most)
        if request.stopping.min_tokens > max_tokens:
            raise InvalidRequest(f"min_tokens must be at most {max_tokens}", field="min_tokens")
        fact_check = request.speculation.fact_check
        return Sequence(
            session_id=uuid.uuid4().hex,
            request=request,
            tokens=prompt,
            prompt_length=len(prompt),
            max_length=len(prompt) + max_tokens,
            mode=mode,
            seed=secrets.randbits(64) if seed is None else seed & (2**64 - 1),
            block_size=self._block_size(request),
            tree_width=self._tree_width(request),
            output=Output(self.tokenizer, prompt, _ends(request), self.eos_token_ids, max_tokens),
            allowed=await self._allowed(request),
            validators=await self._validators(request, len(prompt)),
            facts=None if fact_check is FactCheck.OFF else FactCheckSession(fact_check),
            policy=policy,
            trace=Recorder(self.tokenizer.token_bytes) if request.speculation.trace else None,
            notes=Notes(sampled=random.random() < self.sampled),
        )

    async def _policy(self, request: GenerateRequest) -> Policy | None:
        """Off the event loop: a policy may have a model to load."""
        resources = policies.Resources(self._token_text, embedding.load_words)
        return await asyncio.to_thread(policies.make, request.speculation.policy or self.policy, resources)

    def _token_text(self, token_id: int) -> str:
        return self.tokenizer.token_bytes(token_id).decode(errors="replace")

    def _drafted(self, request: GenerateRequest) -> GenerateRequest:
        checked = request.speculation.fact_check is not FactCheck.OFF
        if self.own_draft is None or request.drafts or checked:
            return request
        return replace(request, drafts=(self.own_draft,))

    async def _allowed(self, request: GenerateRequest) -> Allowed | None:
        """None: every token, at every position."""
        held = _held_tokens(request, self.eos_token_ids)
        if len(held) >= self.vocabulary_size:
            raise InvalidRequest("stop_token_ids leaves min_tokens no token", field="stop_token_ids")
        if request.constraint is None:
            return Allowed(self.vocabulary_size, held) if held else None
        if self.constraints is None:
            field = request.constraint.field
            raise InvalidRequest(f"{field}: this model cannot be held to a grammar", field=field)
        return Allowed(self.vocabulary_size, held, await self.constraints.matcher(request.constraint))

    async def _validators(self, request: GenerateRequest, prompt_length: int) -> Vetted | None:
        chosen = request.speculation.validators
        if self.vetting:
            return await self.vetting.admit(chosen, AnswerText(self.tokenizer, prompt_length))
        if chosen:
            raise InvalidRequest("this deployment has no validators", field=registry.FIELD)
        return None

    async def tokenize(self, prompt: Prompt) -> list[int]:
        """Off the event loop: a long prompt takes milliseconds."""
        if isinstance(prompt, str):
            return await asyncio.to_thread(self.tokenizer.encode, prompt)
        if isinstance(prompt, list):
            self._check_ids(prompt, "prompt")
            return list(prompt)
        return await asyncio.to_thread(self.tokenizer.encode_conversation, prompt)

    def detokenize(self, token_ids: list[int]) -> str:
        """Raises InvalidRequest for an id outside the vocabulary."""
        self._check_ids(token_ids, "token_ids")
        return self.tokenizer.decode(token_ids)

    def _check(self, request: GenerateRequest, prompt: list[int]) -> None:
        field = "messages" if isinstance(request.prompt, tuple) else "prompt"
        if not prompt:
            raise InvalidRequest(f"{field} has no tokens", field=field)
        if len(prompt) >= self.context_length:
            raise InvalidRequest(
                f"{field} has {len(prompt)} tokens; the context holds {self.context_length}, answer included",
                field=field,
            )
        self._check_ids(request.sampling.logit_bias, "logit_bias")
        self._check_ids(request.stopping.stop_token_ids, "stop_token_ids")
        if request.speculation.fact_check is not FactCheck.OFF and not self.fact_checks:
            raise InvalidRequest("this deployment has no fact check", field="speculation.fact_check")

    def _check_ids(self, token_ids: Iterable[int], field: str) -> None:
        wrong = next((token_id for token_id in token_ids if not 0 <= token_id < self.vocabulary_size), None)
        if wrong is not None:
            raise InvalidRequest(
                f"{field}: {wrong} is not a token id; the vocabulary has {self.vocabulary_size}", field=field
            )

    def _block_size(self, request: GenerateRequest) -> int:
        asked = request.speculation.block_size or self.block_size
        if asked > self.max_block_size:
            field = "speculation.block_size"
            raise InvalidRequest(f"{field} must be at most {self.max_block_size}", field=field)
        largest = min(asked, request.terms.largest_block or asked)
        return 0 if request.speculation.disabled or not request.drafts else largest

    def _tree_width(self, request: GenerateRequest) -> int:
        """A fact is checked in running text, so answers that are checked get chains."""
        asked = request.speculation.tree_width or self.tree_width
        if asked > self.max_tree_width:
            field = "speculation.tree_width"
            raise InvalidRequest(f"{field} must be at most {self.max_tree_width}", field=field)
        return asked if request.speculation.fact_check is FactCheck.OFF else 1


def _mode(request: GenerateRequest) -> Mode:
    """Keyed with a seed or a veto, rejection otherwise."""
    speculation = request.speculation
    if speculation.mode is not None:
        return speculation.mode
    keyed = speculation.fact_check is FactCheck.VETO or request.sampling.seed is not None
    return Mode.KEYED if keyed else Mode.REJECTION


def _held_tokens(request: GenerateRequest, eos_token_ids: Set[int]) -> dict[int, int]:
    """What may not come before so many output tokens.

    With a grammar, ``ignore_eos`` holds the end back for as long as anything else may come.
    """
    stopping, held = request.stopping, {}
    if stopping.min_tokens:
        held = dict.fromkeys(eos_token_ids | stopping.stop_token_ids, stopping.min_tokens)
    if stopping.ignore_eos and request.constraint:
        held |= dict.fromkeys(eos_token_ids, FOR_EVER)
    return held


def _ends(request: GenerateRequest) -> Stopping:
    """Past the end of its grammar no answer can go on, whatever it ignores."""
    ignore_eos = request.stopping.ignore_eos and request.constraint is None
    return replace(request.stopping, ignore_eos=ignore_eos)
