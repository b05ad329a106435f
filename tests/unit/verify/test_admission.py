"""What is refused, by the name of its field, and what the defaults are."""

from __future__ import annotations

from dataclasses import replace

import pytest

from common.errors import InvalidRequest
from common.types import (
    DraftEndpoint,
    FactCheck,
    GenerateRequest,
    Message,
    Mode,
    PolicyChoice,
    SamplingParams,
    SpeculationParams,
    Stopping,
)
from tests.support.scripted import CharTokenizer, Script, ask, collect, make_engine, perfect, sampled
from tests.unit.verify.support import hashed_target
from verify_service.admission import Admission

TOKENIZER = CharTokenizer()
VOCABULARY = len(TOKENIZER)
CONTEXT = 50


@pytest.fixture
def admission() -> Admission:
    return make_engine(
        Script(VOCABULARY), context_length=CONTEXT, block_size=4, max_block_size=8, fact_checks=True
    ).admission


def request(prompt: object = "hello", **fields: object) -> GenerateRequest:
    drafts = (DraftEndpoint("pool", "a"),)
    return replace(GenerateRequest("r", prompt, drafts=drafts), **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        pytest.param(request(""), "prompt", id="empty text"),
        pytest.param(request([]), "prompt", id="no ids"),
        pytest.param(request(()), "messages", id="no messages"),
        pytest.param(request([VOCABULARY]), "prompt", id="unknown id"),
        pytest.param(request([1, -1]), "prompt", id="negative id"),
        pytest.param(request([1] * CONTEXT), "prompt", id="fills the context"),
        pytest.param(request("a" * 1000), "prompt", id="longer than the context"),
        pytest.param(request((Message("user", "b" * 60),)), "messages", id="long conversation"),
        pytest.param(request(sampling=SamplingParams(logit_bias={VOCABULARY: 1})), "logit_bias", id="bias"),
        pytest.param(request(sampling=SamplingParams(logit_bias={-1: 1})), "logit_bias", id="negative bias"),
        pytest.param(
            request(stopping=Stopping(stop_token_ids=frozenset({VOCABULARY}))), "stop_token_ids", id="stop id"
        ),
        pytest.param(
            request(speculation=SpeculationParams(block_size=9)), "speculation.block_size", id="block size"
        ),
        pytest.param(
            request(speculation=SpeculationParams(policy=PolicyChoice("loose"))),
            "speculation.policy",
            id="policy",
        ),
        pytest.param(
            request(speculation=SpeculationParams(policy=PolicyChoice("kl", {"delta": 2}))),
            "speculation.policy.delta",
            id="parameter of a policy",
        ),
    ],
)
async def test_what_cannot_be_served_is_refused_by_the_name_of_its_field(
    admission: Admission, wrong: GenerateRequest, field: str
) -> None:
    with pytest.raises(InvalidRequest, match=field.rsplit(".", 1)[-1]) as refused:
        await admission.sequence(wrong)
    assert refused.value.field == field
    assert refused.value.http_status == 400


@pytest.mark.parametrize("fact_check", [FactCheck.ANNOTATE, FactCheck.VETO])
async def test_a_deployment_without_fact_checks_says_so(fact_check: FactCheck) -> None:
    admission = make_engine(Script(VOCABULARY)).admission
    with pytest.raises(InvalidRequest) as refused:
        await admission.sequence(request(speculation=SpeculationParams(fact_check=fact_check)))
    assert refused.value.field == "speculation.fact_check"


@pytest.mark.parametrize(
    ("seed", "asked", "fact_check", "mode"),
    [
        (None, None, FactCheck.OFF, Mode.REJECTION),
        (0, None, FactCheck.OFF, Mode.KEYED),
        (-5, None, FactCheck.OFF, Mode.KEYED),
        (None, None, FactCheck.ANNOTATE, Mode.REJECTION),
        (None, None, FactCheck.VETO, Mode.KEYED),
        (None, Mode.KEYED, FactCheck.VETO, Mode.KEYED),
        (None, Mode.KEYED, FactCheck.OFF, Mode.KEYED),
        (3, Mode.REJECTION, FactCheck.OFF, Mode.REJECTION),
        (3, Mode.REJECTION, FactCheck.ANNOTATE, Mode.REJECTION),
    ],
)
async def test_the_mode_is_the_one_asked_for_or_follows_from_seed_and_veto(
    admission: Admission, seed: int | None, asked: Mode | None, fact_check: FactCheck, mode: Mode
) -> None:
    speculation = SpeculationParams(mode=asked, fact_check=fact_check)
    sequence = await admission.sequence(request(sampling=SamplingParams(seed=seed), speculation=speculation))
    assert sequence.mode is mode
    assert (sequence.facts is not None) is (fact_check is not FactCheck.OFF)


async def test_unseeded_requests_get_seeds_of_their_own_and_every_session_an_id_of_its_own(
    admission: Admission,
) -> None:
    sequences = [await admission.sequence(request()) for _ in range(50)]
    assert len({sequence.seed for sequence in sequences}) == 50
    assert len({sequence.session_id for sequence in sequences}) == 50
    assert all(0 <= sequence.seed < 2**64 for sequence in sequences)


@pytest.mark.parametrize(
    ("seed", "unsigned"), [(0, 0), (7, 7), (-1, 2**64 - 1), (-(2**63), 2**63), (2**63 - 1, 2**63 - 1)]
)
async def test_a_seed_is_used_as_64_bits(admission: Admission, seed: int, unsigned: int) -> None:
    assert (await admission.sequence(request(sampling=SamplingParams(seed=seed)))).seed == unsigned


@pytest.mark.parametrize("seed", [-1, -(2**63), 2**63 - 1])
@pytest.mark.parametrize("mode", Mode)
async def test_extreme_seeds_serve_an_answer_with_drafts(seed: int, mode: Mode) -> None:
    target = hashed_target(VOCABULARY)
    bench = make_engine(target, {"a": sampled(target)})
    answer = await collect(
        bench.engine,
        ask(
            TOKENIZER.encode("hi"),
            "a",
            sampling=SamplingParams(seed=seed),
            stopping=Stopping(max_tokens=12, ignore_eos=True),
            speculation=SpeculationParams(mode=mode),
        ),
    )
    assert len(answer.token_ids) == 12
    assert answer.finished.stats.accepted_tokens > 0


@pytest.mark.parametrize(("asked", "used"), [(None, 4), (1, 1), (8, 8)])
async def test_the_block_size_is_the_one_asked_for_or_the_deployments(
    admission: Admission, asked: int | None, used: int
) -> None:
    sequence = await admission.sequence(request(speculation=SpeculationParams(block_size=asked)))
    assert sequence.block_size == used


async def test_without_drafts_or_with_speculation_disabled_there_are_no_blocks(admission: Admission) -> None:
    assert (await admission.sequence(request(drafts=()))).block_size == 0
    disabled = request(speculation=SpeculationParams(disabled=True, block_size=8))
    assert (await admission.sequence(disabled)).block_size == 0


@pytest.mark.parametrize(("asked", "most"), [(None, 45), (1, 1), (44, 44), (45, 45), (46, 45), (10**9, 45)])
async def test_an_answer_may_fill_the_context_and_no_more(
    admission: Admission, asked: int | None, most: int
) -> None:
    sequence = await admission.sequence(request("a" * 5, stopping=Stopping(max_tokens=asked)))
    assert sequence.max_length - sequence.prompt_length == most


async def test_the_longest_prompt_that_fits_leaves_room_for_one_token() -> None:
    script = Script(VOCABULARY)
    bench = make_engine(script, {"a": perfect(script)}, context_length=CONTEXT)
    prompt = [1] * (CONTEXT - 1)
    script.add(prompt, [2, 3])
    answer = await collect(bench.engine, ask(prompt, "a"))
    assert answer.token_ids == [2]


async def test_a_prompt_of_ids_is_copied_not_grown(admission: Admission) -> None:
    prompt = [1, 2, 3]
    sequence = await admission.sequence(request(prompt))
    sequence.tokens.append(4)
    assert prompt == [1, 2, 3]


def test_detokenize_refuses_ids_that_are_none(admission: Admission) -> None:
    assert admission.detokenize(TOKENIZER.encode("héllo")) == "héllo"
    with pytest.raises(InvalidRequest) as refused:
        admission.detokenize([VOCABULARY])
    assert refused.value.field == "token_ids"
