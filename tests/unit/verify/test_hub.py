"""Sessions on drafts that are slow, refusing or gone."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

import pytest

from common import noise
from common.draft_types import Close, Commit, Open, Refused
from common.types import FactCheck, Mode, SamplingParams
from tests.support.scripted import never
from tests.unit.verify.hub_bench import PROMPT, VOCABULARY, Bench, counts_up, seconds, updates
from tests.unit.verify.support import counting, make_sequence


async def test_a_session_opens_with_everything_the_draft_needs() -> None:
    bench = Bench({"a": counts_up})
    sampling = SamplingParams(temperature=0.7, top_k=5, seed=99)
    sequence = make_sequence(PROMPT, "a", sampling=sampling, fact_check=FactCheck.ANNOTATE)
    assert await bench.opened(sequence)
    assert bench.link().updates == [
        Open(
            session_id="session",
            fingerprint="fingerprint",
            vocabulary_size=VOCABULARY,
            token_ids=PROMPT,
            prompt_length=3,
            sampling=replace(sampling, seed=None),
            mode=Mode.KEYED,
            noise_seed=7,
            block_size=4,
            max_block_size=4,
            publish=True,
        )
    ]


async def test_a_draft_is_told_the_tenant_and_never_the_salt() -> None:
    told = {}
    for salt in ("", "acme", "globex"):
        bench = Bench({"a": never})
        await bench.opened(make_sequence(PROMPT, "a", cache_salt=salt))
        told[salt] = bench.link().sessions["session"].opened.tenant
    assert told[""] == ""
    assert len(set(told.values())) == 3
    assert all(len(told[salt]) == 64 and salt not in told[salt] for salt in ("acme", "globex"))


async def test_under_rejection_the_draft_never_learns_the_targets_noise() -> None:
    bench = Bench({"a": never})
    await bench.opened(make_sequence(PROMPT, "a", mode=Mode.REJECTION))
    opened = bench.link().sessions["session"].opened
    assert opened.noise_seed == noise.draft_seed(7) != 7
    assert opened.sampling.seed is None
    assert not opened.publish


async def test_the_first_block_is_not_waited_for_and_later_ones_are() -> None:
    bench = Bench({"a": counts_up})
    sequence = make_sequence(PROMPT, "a")
    assert await seconds(bench, sequence) < 0.5
    assert bench.hub.take(sequence) is None
    await asyncio.sleep(0.005)
    bench.step(sequence, accepted=2)
    bench.link().delay_seconds = 0.05
    bench.step(sequence)
    assert 0.02 < await seconds(bench, sequence) < 0.5
    assert bench.hub.peek(sequence) is not None


async def test_a_draft_is_told_the_end_of_the_answer_and_not_waited_for() -> None:
    bench = Bench({"a": counts_up})
    sequence = make_sequence(PROMPT, "a")
    await bench.opened(sequence)
    bench.step(sequence, accepted=2)
    told = len(sequence.tokens)
    sequence.tokens += [4, 8]
    bench.hub.close(sequence)
    end = Commit("session", told, block_id=0, accepted_nodes=(), token_ids=(4, 8), block_size=0)
    assert bench.link().updates[-2:] == [end, Close("session")]


async def test_a_draft_that_knows_all_or_never_answered_is_told_nothing_at_the_end() -> None:
    for propose in (counts_up, never):
        bench = Bench({"a": propose})
        sequence = make_sequence(PROMPT, "a")
        await bench.opened(sequence)
        sequence.tokens += [4] if propose is never else []
        bench.hub.close(sequence)
        assert [type(update) for update in bench.link().updates] == [Open, Close]


async def test_a_late_draft_costs_one_wait_budget_in_all_until_the_breakers_pause_is_over() -> None:
    now = 0.0
    bench = Bench({"a": counts_up}, wait_seconds=0.1, clock=lambda: now)
    sequence = make_sequence(PROMPT, "a")
    await bench.opened(sequence)
    bench.link().delay_seconds = 10
    bench.step(sequence, accepted=4)
    with counting("tandem_draft_missed_waits_total") as missed:
        assert 0.08 < await seconds(bench, sequence) < 0.3
    assert (missed.by, sequence.stats.missed_waits) == (1, 1)
    assert updates(bench.link(), Close) == [Close("session")]
    for _ in range(5):
        bench.step(sequence)
        assert await seconds(bench, sequence) < 0.05
    assert len(updates(bench.link(), Open)) == 1
    bench.link().delay_seconds = 0
    now = 0.26
    assert await bench.opened(sequence)
    assert bench.link().sessions["session"].opened.token_ids == sequence.tokens
    assert sequence.stats.missed_waits == 1


async def test_the_pause_doubles_while_a_draft_stays_late() -> None:
    now = 0.0
    bench = Bench({"a": counts_up, "b": counts_up}, wait_seconds=0.01, clock=lambda: now)
    breaker = bench.drafts.make_link("b").breaker
    pauses = []
    for _ in range(8):
        breaker.missed()
        closed_at = now
        while not breaker.closed:
            now += 0.125
        pauses.append(now - closed_at)
    assert pauses == [0.25, 0.5, 1, 2, 4, 8, 8, 8]


async def test_a_draft_that_answers_and_is_late_in_turn_costs_no_more_than_three_percent() -> None:
    now = 0.0
    breaker = Bench({}, clock=lambda: now).drafts.make_link("a").breaker
    budget, waited = 0.05, 0.0
    while now < 120:
        if breaker.closed:
            breaker.answered()
            breaker.missed()
            waited += budget
            now += budget
        now += 0.01
    assert waited / now <= 0.03


async def test_a_client_that_leaves_while_its_draft_works_costs_the_others_nothing() -> None:
    bench = Bench({"a": counts_up}, wait_seconds=0.3)
    leaving, staying = make_sequence(PROMPT, "a", session_id="1"), make_sequence(PROMPT, "a", session_id="2")
    await bench.opened(leaving)
    await bench.opened(staying)
    bench.link().delay_seconds = 0.05
    bench.step(leaving)
    bench.step(staying)
    waiting = asyncio.create_task(bench.hub.wait([leaving, staying]))
    await asyncio.sleep(0.01)
    bench.hub.close(leaving)
    started = time.monotonic()
    await waiting
    assert time.monotonic() - started < 0.2
    assert bench.link().breaker.closed
    assert bench.hub.peek(staying) is not None


async def test_a_draft_that_never_answered_is_never_waited_for() -> None:
    bench = Bench({"a": never})
    sequence = make_sequence(PROMPT, "a")
    for _ in range(4):
        assert await seconds(bench, sequence) < 0.5
        bench.step(sequence)
    assert sequence.stats.missed_waits == 0


@pytest.mark.parametrize("code", ["fingerprint_mismatch", "overloaded", "something new"])
async def test_a_refused_session_goes_to_the_next_draft_of_the_plan_and_not_back(code: str) -> None:
    bench = Bench({"a": lambda session: Refused(session.opened.session_id, code, "no"), "b": counts_up})
    sequence = make_sequence(PROMPT, "a", "b")
    label = code if code != "something new" else "other"
    with counting("tandem_draft_sessions_refused_total", code=label) as refused:
        assert await bench.opened(sequence) is None
    assert refused.by == 1
    assert await bench.opened(sequence)
    bench.link("b").go_down()
    for _ in range(3):
        await bench.opened(sequence)
    assert len(updates(bench.link("a"), Open)) == 1


async def test_a_session_out_of_sync_is_opened_again_with_all_tokens() -> None:
    bench = Bench({"a": counts_up})
    sequence = make_sequence(PROMPT, "a")
    await bench.opened(sequence)
    bench.step(sequence, accepted=1)
    del bench.link().sessions["session"]
    bench.link().answer(Refused("session", "out_of_sync", "who?"))
    assert await bench.opened(sequence)
    assert bench.link().sessions["session"].opened.token_ids == [*PROMPT, 5, 9]


async def test_a_lost_link_moves_its_sessions_elsewhere_with_all_tokens_and_ends_the_wait() -> None:
    bench = Bench({"a": counts_up, "b": counts_up})
    sequence = make_sequence(PROMPT, "a", "b")
    await bench.opened(sequence)
    bench.link().propose = never
    bench.step(sequence, accepted=4)
    waiting = asyncio.create_task(bench.hub.wait([sequence]))
    await asyncio.sleep(0.01)
    bench.link().go_down()
    async with asyncio.timeout(0.5):
        await waiting
    assert sequence.stats.missed_waits == 0
    block = await bench.opened(sequence)
    assert block
    assert (block.base_length, block.source) == (8, "pool-b")
    assert bench.link("b").sessions["session"].opened.token_ids == [*PROMPT, 5, 5, 5, 5, 9]


async def test_without_any_draft_there_is_no_session_and_no_wait() -> None:
    bench = Bench({})
    lonely = make_sequence(PROMPT)
    assert await seconds(bench, lonely) < 0.5
    assert not bench.drafts.links
    drafted = make_sequence(PROMPT, "a")
    await bench.hub.wait([drafted])
    bench.link().go_down()
    for _ in range(3):
        bench.step(drafted)
        assert await seconds(bench, drafted) < 0.5
    bench.link().come_up()
    await bench.hub.wait([drafted])
    assert bench.link().sessions["session"].tokens == drafted.tokens


async def test_nothing_is_asked_for_beyond_the_longest_the_answer_may_get() -> None:
    bench = Bench({"a": counts_up})
    sequence = make_sequence(PROMPT, "a", block_size=4, max_length=10)
    asked = []
    while sequence.num_left > 0:
        await bench.hub.wait([sequence])
        await asyncio.sleep(0.005)
        block = bench.hub.peek(sequence)
        assert len(block.token_ids if block else ()) <= sequence.num_left - 1
        asked.append(len(block.token_ids) if block else 0)
        bench.step(sequence, accepted=1)
    assert asked == [4, 4, 2, 0]
    sizes = [update.block_size for update in updates(bench.link(), Commit) if isinstance(update, Commit)]
    assert sizes[-1] == 0


async def test_a_sequence_with_one_token_left_opens_no_session() -> None:
    bench = Bench({"a": counts_up})
    await bench.opened(make_sequence(PROMPT, "a", max_length=4))
    assert not bench.drafts.links


async def test_links_are_limited_in_number() -> None:
    bench = Bench({})
    for index in range(70):
        await bench.hub.wait([make_sequence(PROMPT, f"draft-{index}", session_id=str(index))])
    assert len(bench.drafts.links) == 64


async def test_a_replica_that_is_gone_gives_its_place_to_a_new_one() -> None:
    bench = Bench({"new": counts_up})
    for index in range(64):
        sequence = make_sequence(PROMPT, f"draft-{index}", session_id=str(index))
        await bench.hub.wait([sequence])
        bench.hub.close(sequence)
        bench.link(f"draft-{index}").go_down()
    assert await bench.opened(make_sequence(PROMPT, "new"))


async def test_shutdown_closes_every_link() -> None:
    bench = Bench({})
    for address in "abc":
        await bench.hub.wait([make_sequence(PROMPT, address, session_id=address)])
    await bench.hub.shutdown()
    assert all(link.closed for link in bench.drafts.links.values())


async def test_one_slow_session_is_waited_for_once_and_leaves_with_the_others_of_its_replica() -> None:
    bench = Bench({"a": counts_up, "b": counts_up}, wait_seconds=0.1)
    sequences = [make_sequence(PROMPT, address, session_id=f"{address}{n}") for address in "ab" for n in "12"]
    for sequence in sequences:
        await bench.opened(sequence)
    bench.link("a").propose = never
    for sequence in sequences:
        bench.step(sequence)
    await bench.hub.wait(sequences)
    assert not bench.link("a").sessions
    assert len(bench.link("b").sessions) == 2
    assert [bench.hub.peek(sequence) is not None for sequence in sequences] == [False, False, True, True]
