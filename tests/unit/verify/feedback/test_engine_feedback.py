"""What is noted of an answer while the engine makes it, and drafts that are only watched."""

from __future__ import annotations

from dataclasses import replace

import pytest

from common.feedback import FeedbackRecord
from common.types import FactCheck, Mode, SamplingParams, SpeculationParams, Stopping, Terms
from tests.support.scripted import (
    GREEDY,
    Answer,
    Bench,
    CharTokenizer,
    DraftSession,
    Propose,
    ask,
    collect,
    garbage,
    half_wrong,
    make_engine,
    perfect,
)
from tests.support.scripted.target import EOS, Script
from verify_service.feedback.reporter import record_of
from verify_service.sequence import Sequence

TOKENIZER = CharTokenizer()
PROMPT = TOKENIZER.encode("count with me: ")
SCRIPT = Script(len(TOKENIZER))
SCRIPT.add(PROMPT, [*TOKENIZER.encode("one, two, three, four, five, six."), EOS])
DRAFTED = Terms("chat")
WATCHED = Terms("chat", shadow=True)


class Kept:
    """A reporter that keeps what it is given."""

    def __init__(self) -> None:
        self.records: list[FeedbackRecord] = []
        self.sequences: list[Sequence] = []

    def report(self, sequence: Sequence, *, finished: bool) -> None:
        self.sequences.append(sequence)
        self.records.append(record_of(sequence, finished=finished))


async def answered(
    bench: Bench, terms: Terms, *drafts: str, sampling: SamplingParams = GREEDY, fact_check: bool = False
) -> tuple[Answer, FeedbackRecord]:
    kept = Kept()
    bench.engine._reporter = kept  # type: ignore[assignment]
    speculation = SpeculationParams(fact_check=FactCheck.VETO if fact_check else FactCheck.OFF)
    request = ask(
        PROMPT, *drafts, sampling=sampling, stopping=Stopping(max_tokens=40), speculation=speculation
    )
    answer = await collect(bench.engine, replace(request, terms=terms))
    (record,) = kept.records
    return answer, record


async def test_a_record_has_the_tokens_and_blocks_of_its_answer() -> None:
    bench = make_engine(SCRIPT, {"draft": half_wrong(SCRIPT)})
    answer, record = await answered(bench, DRAFTED, "draft")
    stats, (draft,) = answer.finished.stats, record.drafts
    assert record.prompt_class == "chat"
    assert record.finished and not record.shadow and not record.lossy
    first = len(answer.deltas[0].token_ids)
    assert record.tokens == len(answer.token_ids) - first
    assert record.speculated_tokens > 0
    assert record.speculated_seconds > 0
    assert 0 < record.first_token_seconds <= record.total_seconds
    assert (draft.pool, draft.address) == ("pool-draft", "draft")
    # What became of an answer's last block is not learned any more.
    assert stats.drafts - 1 <= draft.blocks <= stats.drafts
    assert draft.bad_blocks == draft.missed_waits == 0
    assert 0 < draft.accepted[0] < draft.offered[0]


async def test_without_drafts_all_steps_are_plain() -> None:
    _, record = await answered(make_engine(SCRIPT), DRAFTED)
    assert record.drafts == ()
    assert record.speculated_tokens == 0 and record.speculated_seconds == 0
    assert record.plain_tokens > 0 and record.plain_seconds > 0


@pytest.mark.parametrize("sampling", [GREEDY, SamplingParams(seed=7), SamplingParams()])
@pytest.mark.parametrize(("draft", "right"), [(perfect, True), (garbage, False)])
async def test_a_watched_draft_is_measured_and_verifies_nothing(
    draft: object, right: bool, sampling: SamplingParams
) -> None:
    bench = make_engine(SCRIPT, {"draft": draft(SCRIPT)})  # type: ignore[operator]
    answer, record = await answered(bench, WATCHED, "draft", sampling=sampling)
    assert answer.finished.stats.draft_tokens == 0
    assert all(size == 1 for size in bench.runner.pass_sizes[1:])
    (drafted,) = record.drafts
    assert record.shadow and record.speculated_tokens == 0
    assert drafted.blocks > 2
    if right:
        assert drafted.accepted == drafted.offered
        assert len(drafted.offered) == 4
    else:
        assert sum(drafted.accepted) == 0
    bench.assert_idle()


@pytest.mark.parametrize("draft", [perfect, half_wrong, garbage])
async def test_a_watched_draft_changes_no_token(draft: object) -> None:
    sampling = SamplingParams(seed=11)
    plain, _ = await answered(make_engine(SCRIPT), DRAFTED, sampling=sampling)
    watching = make_engine(SCRIPT, {"draft": draft(SCRIPT)})  # type: ignore[operator]
    watched, _ = await answered(watching, WATCHED, "draft", sampling=sampling)
    assert watched.token_ids == plain.token_ids


async def test_a_watched_draft_that_is_silent_holds_up_nothing_and_is_counted() -> None:
    bench = make_engine(SCRIPT, {"draft": lambda session: None}, wait_seconds=0.0)
    _, record = await answered(bench, WATCHED, "draft")
    assert record.drafts[0].missed_waits > 0
    assert record.drafts[0].blocks == 0


async def test_a_watched_answer_waits_for_no_verdict() -> None:
    bench = make_engine(SCRIPT, {"draft": perfect(SCRIPT)}, fact_checks=True)
    answer, record = await answered(bench, WATCHED, "draft", fact_check=True)
    assert record.drafts[0].blocks > 2
    assert answer.finished.stats.tags_missing == 0


async def test_watched_answers_are_keyed_so_that_every_guess_is_comparable() -> None:
    answer, _ = await answered(
        make_engine(SCRIPT, {"draft": perfect(SCRIPT)}), WATCHED, "draft", sampling=SamplingParams()
    )
    assert answer.started.mode is Mode.KEYED


async def test_a_block_that_breaks_the_rules_is_a_bad_one() -> None:
    def outside(session: DraftSession) -> object:
        return session.block([len(TOKENIZER) + 7])

    proposing: Propose = outside  # type: ignore[assignment]
    _, record = await answered(make_engine(SCRIPT, {"draft": proposing}), DRAFTED, "draft")
    assert record.drafts[0].bad_blocks == 1
    assert record.speculated_tokens == 0


async def test_each_replica_has_its_own_count() -> None:
    bench = make_engine(SCRIPT, {"bad": lambda s: s.block([999_999]), "good": perfect(SCRIPT)})
    _, record = await answered(bench, DRAFTED, "bad", "good")
    bad, good = record.drafts
    assert (bad.address, bad.bad_blocks, bad.blocks) == ("bad", 1, 0)
    assert (good.address, good.bad_blocks) == ("good", 0)
    assert good.blocks > 0


async def test_the_router_may_shorten_blocks() -> None:
    bench = make_engine(SCRIPT, {"draft": perfect(SCRIPT)})
    answer, record = await answered(bench, Terms("chat", largest_block=2), "draft")
    assert len(answer.finished.stats.drafted_per_position) == 2
    assert len(record.drafts[0].offered) == 2


async def test_a_sampled_answer_says_how_likely_it_is() -> None:
    bench = make_engine(SCRIPT, {"draft": half_wrong(SCRIPT)})
    bench = replace(bench, admission=replace(bench.admission, sampled=1.0))
    bench.engine._admission = bench.admission
    answer, record = await answered(bench, DRAFTED, "draft")
    assert record.scored_tokens == len(answer.token_ids)
    assert -0.01 < record.log_probability / record.scored_tokens <= 0


async def test_an_answer_that_is_not_sampled_costs_nothing_more() -> None:
    _, record = await answered(make_engine(SCRIPT, {"draft": perfect(SCRIPT)}), DRAFTED, "draft")
    assert record.scored_tokens == 0
