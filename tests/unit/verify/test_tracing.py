"""What a recorder makes of blocks, cuts and verdicts."""

from __future__ import annotations

from common.draft_types import Block
from common.streams import Flag
from common.trace import Fate, TraceFlag, TraceStep
from verify_service.acceptance import Verdict
from verify_service.tracing import MOST_GUESSES, MOST_STEPS, Beliefs, Pass, Recorder

SHARED = Pass(wait=0.001, model=0.01, accept=0.002, batch=3, rows=12)
ROOT = 5


def recorder() -> Recorder:
    times = iter(range(10_000))
    return Recorder(lambda token_id: b"<%d>" % token_id, clock=lambda: float(next(times)))


def chain(*token_ids: int, **fields: object) -> Block:
    return Block(1, ROOT, token_ids, source="pool", **fields)  # type: ignore[arg-type]


def fates(step: TraceStep | None) -> list[Fate]:
    assert step
    return [guess.fate for guess in step.guesses]


def judged(nodes: tuple[int, ...], guesses: dict[int, float], token: int = 99) -> Beliefs:
    return Beliefs(Verdict(nodes, token), guesses, 0.5)


def test_a_step_tells_what_became_of_every_guess_and_with_which_probability() -> None:
    noted = recorder()
    noted.offer(chain(1, 2, 3, confidences=(0.9, 0.8, float("nan"))), (0, 1, 2), round_trip=0.25)
    noted.begin(ROOT)
    step = noted.step(0, [1, 99], 3, judged((0,), {0: 0.7, 1: 0.1}), SHARED)
    assert step
    assert fates(step) == [Fate.ACCEPTED, Fate.REJECTED, Fate.UNREACHED]
    assert [guess.p for guess in step.guesses] == [0.7, 0.1, None]
    assert [guess.confidence for guess in step.guesses] == [0.9, 0.8, None]
    assert [guess.parent for guess in step.guesses] == [-1, 0, 1]
    assert [guess.source for guess in step.guesses] == ["pool"] * 3
    assert step.texts == (b"<1>", b"<99>")
    assert step.p == (0.7, 0.5)
    assert (step.times.started, step.times.round_trip, step.times.model) == (1.0, 0.25, 0.01)
    assert (step.batch, step.rows) == (3, 12)


def test_cuts_are_told_apart_and_places_stay_those_of_the_block_as_it_came() -> None:
    noted = recorder()
    noted.offer(chain(1, 2, 3, 4, 5, 6), (0, 1, 2, 3, 4), round_trip=0.0)
    noted.narrow((0, 1, 2, 3))
    noted.begin(ROOT)
    noted.flag([Flag(3, 4, "50BP", "rates", "25BP")])
    noted.veto(3)
    step = noted.step(0, [1, 99], 2, judged((0,), {0: 0.7, 1: 0.1}), SHARED)
    assert fates(step) == [
        Fate.ACCEPTED,
        Fate.REJECTED,
        Fate.UNVERIFIED,
        Fate.VETOED,
        Fate.INVALID,
        Fate.UNSURE,
    ]
    assert step
    assert step.flags == (TraceFlag(3, 4, "50BP", "rates", "25BP"),)


def test_of_a_tree_the_siblings_that_were_asked_about_are_rejected() -> None:
    noted = recorder()
    noted.offer(chain(1, 2, 3, 4, parents=(-1, -1, 1, 0)), (0, 1, 2, 3), round_trip=0.0)
    noted.begin(ROOT)
    step = noted.step(0, [2, 3, 99], 4, judged((1, 2), {0: 0.2, 1: 0.6, 2: 0.9}), SHARED)
    assert fates(step) == [Fate.REJECTED, Fate.ACCEPTED, Fate.ACCEPTED, Fate.UNREACHED]


def test_a_sibling_left_out_before_does_not_shift_what_is_said_of_the_others() -> None:
    noted = recorder()
    noted.offer(chain(1, 2, 3, parents=(-1, -1, 1)), (0, 1, 2), round_trip=0.0)
    noted.narrow((1, 2))
    noted.begin(ROOT)
    step = noted.step(0, [2, 99], 2, judged((0,), {0: 0.6, 1: 0.3}), SHARED)
    assert fates(step) == [Fate.INVALID, Fate.ACCEPTED, Fate.REJECTED]
    assert step
    assert [guess.p for guess in step.guesses] == [None, 0.6, 0.3]


def test_an_accepted_guess_after_the_end_of_the_answer_was_not_reached() -> None:
    noted = recorder()
    noted.offer(chain(1, 2, 3), (0, 1, 2), round_trip=0.0)
    noted.begin(ROOT)
    step = noted.step(0, [1], 3, judged((0, 1, 2), {0: 0.7, 1: 0.6, 2: 0.9}), SHARED)
    assert fates(step) == [Fate.ACCEPTED, Fate.UNREACHED, Fate.UNREACHED]
    assert step
    assert step.p == (0.7,)
    assert [guess.p for guess in step.guesses] == [0.7, None, None]


def test_a_block_that_comes_while_the_pass_runs_is_not_part_of_it() -> None:
    noted = recorder()
    noted.begin(ROOT)
    noted.offer(chain(1, 2), (0, 1), round_trip=0.0)
    assert fates(noted.step(0, [99], 0, judged((), {}), SHARED)) == []
    noted.begin(ROOT + 1)
    assert fates(noted.step(1, [99], 0, judged((), {}), SHARED)) == []


def test_a_block_of_which_nothing_was_left_is_shown_all_the_same() -> None:
    noted = recorder()
    noted.offer(chain(1, 2), (), round_trip=0.0)
    noted.begin(ROOT)
    assert fates(noted.step(0, [99], 0, judged((), {}), SHARED)) == [Fate.UNSURE, Fate.UNSURE]


def test_no_more_is_kept_than_promised_and_what_is_left_out_is_counted() -> None:
    noted = recorder()
    for place in range(MOST_STEPS + 3):
        noted.begin(ROOT)
        step = noted.step(place, [99], 0, judged((), {}), SHARED)
        assert (step is None) == (place >= MOST_STEPS)
    assert noted.dropped == 3


def test_guesses_are_bounded_too() -> None:
    noted, kept = recorder(), 0
    for place in range(MOST_GUESSES // 64 + 5):
        noted.offer(chain(*range(64)), (), round_trip=0.0)
        noted.begin(ROOT)
        step = noted.step(place, [99], 0, judged((), {}), SHARED)
        kept += len(step.guesses) if step else 0
    assert kept == MOST_GUESSES
    assert noted.dropped == 5


def test_a_version_that_a_draft_makes_up_is_short_and_printable() -> None:
    noted = recorder()
    noted.offer(chain(1, model_version="v1\n\x1b[31m" + "x" * 1000), (0,), round_trip=0.0)
    noted.begin(ROOT)
    step = noted.step(0, [99], 1, judged((), {0: 0.1}), SHARED)
    assert step
    assert step.model_version.startswith("v1[31mx")
    assert len(step.model_version) <= 64
