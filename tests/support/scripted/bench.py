"""An engine wired with the scripted parts, and its answers collected."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from common.model.block_manager import BlockManager
from common.model.runner import model_thread
from common.switches import State
from common.types import (
    LOSSLESS,
    Annotation,
    Delta,
    DraftEndpoint,
    Finished,
    GenerateEvent,
    GenerateRequest,
    Mode,
    PolicyChoice,
    Provenance,
    SamplingParams,
    SpeculationParams,
    Started,
    Stopping,
    TokenLogprobs,
)
from tests.support.scripted.drafts import Propose, ScriptedDrafts
from tests.support.scripted.target import EOS, CharTokenizer, Script, ScriptedRunner, Target, as_tokenizer
from verify_service.acceptance import ACCEPTANCE, Acceptance
from verify_service.admission import Admission
from verify_service.constraints import Constraints
from verify_service.drafts.ahead import AheadPolicy
from verify_service.drafts.control.base import Policy
from verify_service.drafts.hub import DraftHub
from verify_service.drafts.limits import Limits
from verify_service.drafts.link import Link
from verify_service.drafts.lookahead.link import ENDPOINT
from verify_service.drafts.lookahead.lookahead import Lookahead
from verify_service.engine import Engine, Waits
from verify_service.scheduler import Scheduler
from verify_service.tags import TagReader
from verify_service.validators.vetting import Vetting

GREEDY = SamplingParams(temperature=0)

_DEADLINE_SECONDS = 20.0
_WAITS = Waits()
_NO_LIMITS = Limits()
_TO_THE_END = Stopping()
_AS_DEPLOYED = SpeculationParams()
_LOSSLESS = PolicyChoice(LOSSLESS)


@dataclass(frozen=True)
class Bench:
    """An engine with everything around it within reach."""

    engine: Engine
    admission: Admission
    scheduler: Scheduler
    hub: DraftHub
    drafts: ScriptedDrafts
    runner: ScriptedRunner
    tags: TagReader
    num_blocks: int

    def assert_idle(self) -> None:
        assert self.engine.load == (0, 0)
        assert self.engine.kv_blocks_free == self.num_blocks
        assert not any(link.sessions for link in self.drafts.links.values())


def make_engine(
    target: Target,
    drafts: Mapping[str, Propose] = {},
    *,
    tokenizer: CharTokenizer | None = None,
    num_blocks: int = 128,
    max_running: int = 32,
    max_waiting: int = 64,
    max_batch_tokens: int = 256,
    prefix_caching: bool = True,
    block_size: int = 4,
    max_block_size: int = 16,
    tree_width: int = 1,
    max_tree_width: int = 8,
    context_length: int = 512,
    wait_seconds: float = 0.5,
    fact_checks: bool = False,
    waits: Waits = _WAITS,
    tags: TagReader | None = None,
    clock: Callable[[], float] = time.monotonic,
    constraints: Constraints | None = None,
    vetting: Vetting | None = None,
    acceptance: Mapping[Mode, Acceptance] = ACCEPTANCE,
    policy: Policy | None = None,
    limits: Limits = _NO_LIMITS,
    lookahead: Lookahead | None = None,
    ahead: AheadPolicy | None = None,
    make_link: Callable[[str], Link] | None = None,
    default_policy: PolicyChoice = _LOSSLESS,
    switch: Callable[[str], State] = lambda _: State.ON,
) -> Bench:
    """
    Args:
        make_link: in place of the scripted drafts.
        policy: of block sizes; ``default_policy`` is one of acceptance.
    """
    tokenizer = tokenizer or CharTokenizer()
    admission = Admission(
        tokenizer=as_tokenizer(tokenizer),
        model_name="scripted",
        system_fingerprint="tandem-scripted",
        vocabulary_size=len(tokenizer),
        context_length=context_length,
        eos_token_ids=frozenset({EOS}),
        block_size=block_size,
        max_block_size=max_block_size,
        tree_width=tree_width,
        max_tree_width=max_tree_width,
        fact_checks=fact_checks,
        constraints=constraints,
        vetting=vetting,
        own_draft=ENDPOINT if lookahead else None,
        policy=default_policy,
    )
    block_manager = BlockManager(num_blocks)
    scheduler = Scheduler(block_manager, max_running, max_waiting, max_batch_tokens, prefix_caching)
    is_committed = target.on_path if isinstance(target, Script) else None
    runner = ScriptedRunner(target, num_blocks, is_committed=is_committed, is_shared=block_manager.is_shared)
    scripted = ScriptedDrafts(drafts, clock)
    hub = DraftHub(
        tokenizer.fingerprint,
        len(tokenizer),
        wait_seconds,
        lookahead.make_link if lookahead else make_link or scripted.make_link,
        policy=policy,
        limits=limits,
        ahead=ahead,
        switch=switch,
    )
    tags = tags or TagReader("")
    engine = Engine(
        admission,
        scheduler,
        runner,
        model_thread(),
        drafts=hub,
        tags=tags,
        vetting=vetting,
        lookahead=lookahead,
        waits=waits,
        acceptance=acceptance,
    )
    return Bench(engine, admission, scheduler, hub, scripted, runner, tags, num_blocks)


def ask(
    prompt: Sequence[int],
    *addresses: str,
    sampling: SamplingParams = GREEDY,
    stopping: Stopping = _TO_THE_END,
    speculation: SpeculationParams = _AS_DEPLOYED,
    cache_salt: str = "",
) -> GenerateRequest:
    """A greedy request, drafted at the given addresses."""
    endpoints = tuple(DraftEndpoint(f"pool-{address}", address) for address in addresses)
    return GenerateRequest(
        "request", list(prompt), sampling, stopping, speculation, endpoints, cache_salt=cache_salt
    )


@dataclass(frozen=True)
class Answer:
    """All events of one answer."""

    events: list[GenerateEvent]

    @property
    def started(self) -> Started:
        assert isinstance(self.events[0], Started)
        return self.events[0]

    @property
    def finished(self) -> Finished:
        assert isinstance(self.events[-1], Finished)
        return self.events[-1]

    @property
    def deltas(self) -> list[Delta]:
        return [event for event in self.events if isinstance(event, Delta)]

    @property
    def token_ids(self) -> list[int]:
        return [token_id for delta in self.deltas for token_id in delta.token_ids]

    @property
    def text(self) -> str:
        return "".join(delta.text for delta in self.deltas)

    @property
    def provenance(self) -> list[Provenance]:
        return [origin for delta in self.deltas for origin in delta.provenance]

    @property
    def logprobs(self) -> list[TokenLogprobs]:
        return [scored for delta in self.deltas for scored in delta.logprobs]

    @property
    def annotations(self) -> list[Annotation]:
        return [annotation for delta in self.deltas for annotation in delta.annotations]


@asynccontextmanager
async def running(engine: Engine, deadline_seconds: float = _DEADLINE_SECONDS) -> AsyncGenerator[None, None]:
    """The engine's loop as a task, within a deadline."""
    task = asyncio.create_task(engine.run())
    try:
        async with asyncio.timeout(deadline_seconds):
            yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def read(engine: Engine, request: GenerateRequest) -> Answer:
    """One answer to its end, from an engine that runs."""
    return Answer([event async for event in engine.generate(request)])


async def collect(engine: Engine, request: GenerateRequest) -> Answer:
    """One answer to its end."""
    async with running(engine):
        return await read(engine, request)
