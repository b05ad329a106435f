"""What clients write as grammars is checked where it can be killed, and never holds anything up."""

from __future__ import annotations

import asyncio
import json
import time

import pytest

from common.constraint import Constraint, ConstraintKind
from common.errors import InvalidRequest, Overloaded
from common.types import GenerateRequest
from tests.support.grammars import allowed_text, compiler, constraints
from tests.support.scripted import CharTokenizer, ask, make_engine, read, running
from verify_service import constraints as module
from verify_service import line_process
from verify_service.constraints import Constraints

TOKENIZER = CharTokenizer("abc")
ENDLESS = Constraint(
    ConstraintKind.JSON_SCHEMA,
    json.dumps({"allOf": [{"type": "string", "pattern": f".*a.{{{i}}}b"} for i in range(20)]}),
    "response_format.json_schema.schema",
)


def regex(text: str) -> Constraint:
    return Constraint(ConstraintKind.REGEX, text, "structured_outputs.regex")


async def test_a_schema_that_would_take_for_ever_is_refused_in_time_and_holds_nobody_up() -> None:
    async with constraints(TOKENIZER, seconds=1.0) as checked:
        await checked.matcher(regex("a"))  # the process has started
        slowest = 0.0

        async def heartbeat() -> None:
            nonlocal slowest
            while True:
                before = time.monotonic()
                await asyncio.sleep(0.01)
                slowest = max(slowest, time.monotonic() - before)

        beating = asyncio.create_task(heartbeat())
        started = time.monotonic()
        with pytest.raises(InvalidRequest) as refused:
            await checked.matcher(ENDLESS)
        assert refused.value.field == ENDLESS.field
        assert time.monotonic() - started < 5
        beating.cancel()
        assert slowest < 0.5
        assert allowed_text(TOKENIZER, await checked.matcher(regex("ab"))) == {"a"}


async def test_what_was_refused_is_refused_again_without_another_look() -> None:
    async with constraints(TOKENIZER, seconds=0.5) as checked:
        for most in (60, 0.2):
            started = time.monotonic()
            with pytest.raises(InvalidRequest):
                await checked.matcher(ENDLESS)
            assert time.monotonic() - started < most


async def test_a_grammar_that_is_none_is_refused_by_the_name_of_its_field() -> None:
    async with constraints(TOKENIZER) as checked:
        with pytest.raises(InvalidRequest) as refused:
            await checked.matcher(regex("("))
        assert refused.value.field == "structured_outputs.regex"
        assert "regex" in refused.value.message


async def test_many_at_once_each_get_their_own_answer() -> None:
    async with constraints(TOKENIZER) as checked:
        made = await asyncio.gather(
            *(checked.matcher(regex("a" * (1 + i % 5) + "bc"[i % 2])) for i in range(20))
        )
        for index, matcher in enumerate(made):
            path = TOKENIZER.encode("a" * (1 + index % 5))
            assert allowed_text(TOKENIZER, matcher, path) == {"bc"[index % 2]}


async def test_any_number_may_ask_for_the_same_at_once() -> None:
    async with constraints(TOKENIZER) as checked:
        made = await asyncio.gather(
            *(checked.matcher(regex("ab")) for _ in range(4 * line_process._MOST_WAITING))
        )
        assert all(allowed_text(TOKENIZER, matcher) == {"a"} for matcher in made)


async def test_one_that_is_cancelled_does_not_leave_its_answer_to_the_next() -> None:
    async with constraints(TOKENIZER, seconds=1.0) as checked:
        await checked.matcher(regex("a"))
        cancelled = asyncio.create_task(checked.matcher(ENDLESS))
        await asyncio.sleep(0.1)
        cancelled.cancel()
        assert allowed_text(TOKENIZER, await checked.matcher(regex("b"))) == {"b"}


async def test_more_than_so_many_do_not_wait() -> None:
    async with constraints(TOKENIZER, seconds=0.3) as checked:
        asked = [checked.matcher(regex(f"a{{{i + 1}}}")) for i in range(line_process._MOST_WAITING + 8)]
        results = await asyncio.gather(*asked, return_exceptions=True)
    assert sum(isinstance(result, Overloaded) for result in results) == 8


async def test_what_is_remembered_is_bounded() -> None:
    made = Constraints(compiler(TOKENIZER), 60)
    for index in range(module._MOST_CHECKED + 3):
        await made.matcher(regex(f"a{{{index + 1}}}"))
    assert len(made._checked) == module._MOST_CHECKED
    await made.close()


async def test_a_target_without_grammars_refuses_a_constraint_by_name() -> None:
    bench = make_engine(lambda prefix: None, tokenizer=TOKENIZER)  # type: ignore[arg-type, return-value]
    request = GenerateRequest("r", [1], constraint=regex("a"))
    with pytest.raises(InvalidRequest) as refused:
        await bench.admission.sequence(request)
    assert refused.value.field == "structured_outputs.regex"


async def test_a_request_refused_for_its_grammar_holds_no_slot() -> None:
    async with constraints(TOKENIZER) as checked:
        bench = make_engine(lambda prefix: None, tokenizer=TOKENIZER, constraints=checked)  # type: ignore[arg-type, return-value]
        async with running(bench.engine):
            with pytest.raises(InvalidRequest):
                await read(bench.engine, GenerateRequest("r", [1], constraint=regex("(")))
        bench.assert_idle()
        assert ask([1]).constraint is None
