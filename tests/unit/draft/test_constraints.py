"""Drafts are held to what the target is held to: their guesses could stand, and their q says so."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
import torch

from common import sampling, trees
from common.allowed import Allowed
from common.constraint import Constraint, ConstraintKind
from common.draft_types import Proposed
from common.grammar import lower
from common.model.runner import model_thread
from common.types import Mode, SamplingParams
from draft_service.engine import DraftEngine
from draft_service.publisher import Publisher
from draft_service.session import Session
from draft_service.sources.ngram import NgramSource
from draft_service.sources.paged import PagedSource
from draft_service.vocabulary import Vocabulary
from tests.support.grammars import compiler, regex_matcher
from tests.support.scripted import EOS, CharTokenizer
from tests.unit.draft.paged import VOCABULARY, PagedRunner, logits_after
from tests.unit.draft.sessions import opened, opening

TOKENIZER = CharTokenizer([chr(0x41 + i) for i in range(VOCABULARY - 1)])
PROMPT = [5, 6, 7]
WARM = SamplingParams(temperature=1.5)


def session(
    regex: str | None, held: dict[int, int], output: Sequence[int] = (), mode: Mode = Mode.REJECTION
) -> Session:
    made = opened(
        tokens=[*PROMPT, *output],
        prompt_length=len(PROMPT),
        sampling=WARM,
        mode=mode,
        block_size=5,
        noise_seed=9,
    )
    grammar = regex_matcher(TOKENIZER, regex) if regex else None
    made.allowed = Allowed(len(TOKENIZER), held, grammar)
    return made


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize(
    ("regex", "held", "output"),
    [("[A-F]+", {}, []), ("[A-F]+", {EOS: 20}, [1, 2]), (None, dict.fromkeys(range(30), 3), [40])],
)
def test_the_layers_sample_from_what_is_allowed_and_declare_it(
    mode: Mode, regex: str | None, held: dict[int, int], output: list[int]
) -> None:
    asked, twin = (session(regex, held, output, mode) for _ in range(2))
    source = PagedSource("self", PagedRunner(32), 32, prefill_tokens=64, model_version="v")
    (guess,) = source.propose([asked])
    assert guess is not None
    allowed = twin.follow()
    assert allowed
    path: list[int] = []
    for index, token_id in enumerate(guess.token_ids):
        mask = allowed.mask_after(path)
        assert mask is None or bool(mask[token_id])
        logits = logits_after([*twin.tokens, *path])[None].double()
        if mask is not None:
            logits[0, ~mask] = -torch.inf
        probs = sampling.probabilities(logits, WARM)[0]
        position = len(twin.tokens) + len(path)
        if mode is Mode.KEYED:
            assert token_id == sampling.choose(probs, 9, position)
        else:
            assert guess.distributions[index] == sampling.draft_distribution(probs)
            assert token_id == sampling.choose_sparse(guess.distributions[index], 9, position)
        path.append(token_id)
    assert len(path) == 5


@pytest.mark.parametrize("mode", Mode)
def test_every_branch_of_a_tree_is_one_that_is_allowed(mode: Mode) -> None:
    asked, twin = (session("[A-F]+", {EOS: 20}, [1, 2], mode) for _ in range(2))
    asked.tree_width, asked.block_size = 4, 12
    source = PagedSource("self", PagedRunner(32), 32, prefill_tokens=64, model_version="v")
    (guess,) = source.propose([asked])
    allowed = twin.follow()
    assert guess and allowed
    assert len(guess.token_ids) == 12
    for node in range(12):
        branch = [guess.token_ids[step] for step in trees.path(guess.parents, node)]
        assert allowed.allowed_length(branch) == len(branch)


def test_a_tree_of_prompt_lookup_holds_no_branch_that_is_forbidden() -> None:
    text = [1, 2, 3, 4, 1, 2, 5, 4, 1, 2]
    made = opened(tokens=text, prompt_length=len(text), block_size=4, tree_width=2)
    (free,) = NgramSource(2, 1).propose([made])
    made.allowed = Allowed(len(TOKENIZER), {}, regex_matcher(TOKENIZER, "CD+"))
    (held,) = NgramSource(2, 1).propose([made])
    assert free and set(free.token_ids) == {3, 4, 5}
    assert held and held.token_ids == (3, 4)


def test_prompt_lookup_stops_before_what_is_forbidden() -> None:
    repeated = [1, 2, 3, 4, 5, 1, 2]
    made = opened(tokens=repeated, prompt_length=5, block_size=4)
    (free,) = NgramSource(3, 1).propose([made])
    made.allowed = Allowed(len(TOKENIZER), {}, regex_matcher(TOKENIZER, "ABCD+"))
    (held,) = NgramSource(3, 1).propose([made])
    made.allowed = Allowed(len(TOKENIZER), {3: 9})
    (none,) = NgramSource(3, 1).propose([made])
    assert free and free.token_ids == (3, 4, 5, 1)
    assert held and held.token_ids == (3, 4)
    assert none and none.token_ids == ()


def test_a_grammar_that_cannot_follow_what_was_committed_is_left_aside() -> None:
    made = session("A+", {}, output=[40, 41])
    assert made.follow() is None
    assert made.allowed_length([1, 2]) == 2


async def first_block(engine: DraftEngine, regex: str, *, wait: bool) -> tuple[int, ...]:
    """Opened with a grammar; the guesses that come once the engine has had time to compile it, or at once."""
    stream = engine.connect()
    grammar = lower(Constraint(ConstraintKind.REGEX, regex))
    update = opening(
        tokens=PROMPT,
        sampling=WARM,
        vocabulary_size=len(TOKENIZER),
        grammar=grammar,
        block_size=0 if wait else 5,
    )
    await engine.take(stream, [update])
    running = asyncio.create_task(engine.run())
    try:
        async with asyncio.timeout(20):
            if wait:
                while not any(s.allowed for s, _ in engine._sessions.values()):
                    await asyncio.sleep(0.01)
                [(held, _)] = engine._sessions.values()
                held.block_size = 5
                await engine.take(stream, [])
            [answer] = await anext(aiter(stream))
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert isinstance(answer, Proposed)
    return answer.block.token_ids


@pytest.mark.parametrize("can_compile", [True, False])
async def test_the_engine_compiles_a_grammar_beside_drafting_and_does_without_where_it_cannot(
    can_compile: bool,
) -> None:
    engine = DraftEngine(
        PagedSource("self", PagedRunner(32), 32, prefill_tokens=64, model_version="v"),
        Vocabulary("ours", len(TOKENIZER), 256),
        Publisher("", None),  # type: ignore[arg-type]
        model_thread(),
        max_sessions=4,
        compiler=compiler(TOKENIZER) if can_compile else None,
    )
    guesses = await first_block(engine, "[A-C]+", wait=can_compile)
    assert len(guesses) == 5
    assert (set(guesses) <= set(TOKENIZER.ids(*"ABC"))) == can_compile
