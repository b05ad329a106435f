"""Who is computed next, within blocks and the token budget."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common import trees
from common.draft_types import Block
from common.errors import Overloaded
from common.model.batch import Move
from common.model.block_manager import BLOCK_SIZE, BlockManager
from tests.unit.verify.support import make_sequence
from verify_service.drafts.lookahead.window import Rows
from verify_service.scheduler import Scheduler, Work
from verify_service.sequence import Sequence


def scheduler(
    *, num_blocks: int = 64, max_running: int = 8, max_waiting: int = 8, max_batch_tokens: int = 64
) -> Scheduler:
    return Scheduler(BlockManager(num_blocks), max_running, max_waiting, max_batch_tokens)


def prompt(length: int) -> Sequence:
    return make_sequence([1] * length)


def no_block(sequence: Sequence) -> Block | None:
    return None


def block_of(count: int) -> Block:
    return Block(1, 0, (1,) * count)


def computed(work: list[Work], accepted: int = 0) -> None:
    """What the engine does after a pass."""
    for item in work:
        completes = item.completes
        item.sequence.num_computed += item.count + (accepted if completes else 0)
        if completes:
            item.sequence.tokens += [1] * (accepted + 1)


def decoding(subject: Scheduler, count: int, length: int = 4) -> list[Sequence]:
    made = [prompt(length) for _ in range(count)]
    for sequence in made:
        subject.add(sequence)
    subject.admit()
    while any(sequence.num_pending > 1 or not sequence.num_computed for sequence in made):
        computed(subject.schedule(no_block))
    return made


def test_sequences_join_in_the_order_they_came_and_no_more_than_may_run() -> None:
    subject = scheduler(max_running=2)
    first, second, third = prompt(4), prompt(4), prompt(4)
    for sequence in (first, second, third):
        subject.add(sequence)
    subject.admit()
    assert (subject.running, list(subject.waiting)) == ([first, second], [third])
    subject.remove(first)
    subject.admit()
    assert subject.running == [second, third]


def test_a_long_prompt_at_the_head_of_the_queue_is_not_overtaken() -> None:
    subject = scheduler(num_blocks=4)
    running, long, short = prompt(2 * BLOCK_SIZE), prompt(3 * BLOCK_SIZE), prompt(1)
    for sequence in (running, long, short):
        subject.add(sequence)
    subject.admit()
    assert (subject.running, list(subject.waiting)) == ([running], [long, short])


def test_a_full_queue_refuses_the_next_request() -> None:
    subject = scheduler(max_waiting=2)
    subject.add(prompt(1))
    subject.add(prompt(1))
    with pytest.raises(Overloaded, match="2 requests"):
        subject.add(prompt(1))
    assert len(subject.waiting) == 2


def test_decoding_comes_before_prefill_and_prefill_takes_the_rest_of_the_budget() -> None:
    subject = scheduler(max_batch_tokens=20)
    older, newer = prompt(50), prompt(3)
    subject.add(older)
    subject.add(newer)
    subject.admit()
    computed(subject.schedule(no_block))
    computed(subject.schedule(no_block))
    computed(subject.schedule(no_block))
    assert newer.num_pending == 1
    later = prompt(50)
    subject.add(later)
    subject.admit()
    work = subject.schedule(no_block)
    assert [(item.sequence, item.count) for item in work] == [(older, 1), (newer, 1), (later, 18)]


def test_a_prompt_longer_than_the_budget_is_computed_in_chunks_and_only_the_last_one_completes() -> None:
    subject = scheduler(max_batch_tokens=16)
    sequence = prompt(40)
    subject.add(sequence)
    subject.admit()
    chunks = []
    for _ in range(3):
        work = subject.schedule(lambda _: block_of(3))
        chunks += [(item.count, item.completes, len(item.guesses)) for item in work]
        computed(work)
    assert chunks == [(16, False, 0), (16, False, 0), (8, True, 3)]


@pytest.mark.parametrize("guesses", [0, 1, 8, 16])
def test_no_pass_is_larger_than_the_budget_guesses_included(guesses: int) -> None:
    subject = scheduler(max_batch_tokens=32, max_running=8)
    for length in (5, 60, 31, 32, 17, 1):
        subject.add(prompt(length))
    for _ in range(12):
        subject.admit()
        work = subject.schedule(lambda _: block_of(guesses) if guesses else None)
        assert sum(item.count + len(item.guesses) for item in work) <= 32
        computed(work)


def test_sequences_that_decode_take_turns_when_a_pass_cannot_hold_them_all() -> None:
    subject = scheduler(max_batch_tokens=16, max_running=8, max_waiting=8)
    sequences = decoding(subject, 8)
    served = set()
    for _ in range(8):
        work = subject.schedule(lambda _: block_of(4))
        served |= {id(item.sequence) for item in work}
        computed(work, accepted=4)
    assert len(served) == len(sequences)


def test_a_long_prefill_holds_up_no_sequence_that_decodes_and_is_held_up_by_none() -> None:
    subject = scheduler(num_blocks=128, max_batch_tokens=32)
    sequences = decoding(subject, 4)
    long = prompt(1000)
    subject.add(long)
    subject.admit()
    chunks = []
    while long.num_pending > 1:
        work = subject.schedule(lambda _: block_of(3))
        counts = {item.sequence: item.count for item in work}
        assert set(counts) == {*sequences, long}
        assert all(len(item.guesses) == 3 for item in work if item.sequence is not long)
        chunks.append(counts[long])
        computed(work)
    assert set(chunks[:-1]) == {32 - 4 * 4}
    assert sum(chunks) == 1000


def test_a_fork_runs_at_once_where_it_may_and_waits_where_it_may_not() -> None:
    subject = scheduler(max_running=2, max_waiting=1)
    [sequence] = decoding(subject, 1)
    running, waiting, refused = (make_sequence(sequence.tokens) for _ in range(3))
    subject.fork(sequence, running)
    subject.fork(sequence, waiting)
    with pytest.raises(Overloaded):
        subject.fork(sequence, refused)
    assert (subject.running, list(subject.waiting)) == ([sequence, running], [waiting])
    assert (running.blocks, running.num_computed) == (sequence.blocks, sequence.num_computed)
    assert not waiting.blocks


def test_a_block_that_two_share_is_copied_by_the_first_to_write_and_kept_by_the_last() -> None:
    subject = scheduler()
    [sequence] = decoding(subject, 1, length=5)
    twin = make_sequence(sequence.tokens)
    subject.fork(sequence, twin)
    [shared] = sequence.blocks
    work = subject.schedule(no_block)
    assert [item.sequence for item in work] == [twin, sequence]
    assert sequence.blocks == [shared]
    [own] = twin.blocks
    copied = [(move.source, move.target) for move in subject.take_moves()]
    assert copied == [(shared * BLOCK_SIZE + i, own * BLOCK_SIZE + i) for i in range(5)]
    assert subject.take_moves() == []


def test_moves_of_the_last_pass_are_made_before_a_copy_of_what_they_write() -> None:
    subject = scheduler()
    [sequence] = decoding(subject, 1, length=5)
    [block] = sequence.blocks
    sequence.moves = [Move(block * BLOCK_SIZE + 7, block * BLOCK_SIZE + 4)]
    subject.settle(sequence)
    twin = make_sequence(sequence.tokens)
    subject.fork(sequence, twin)
    subject.schedule(no_block)
    [own] = twin.blocks
    moves = {move.target: move.source for move in subject.take_moves()}
    assert moves[block * BLOCK_SIZE + 4] == moves[own * BLOCK_SIZE + 4] == block * BLOCK_SIZE + 7
    assert moves[own * BLOCK_SIZE + 3] == block * BLOCK_SIZE + 3


def test_moves_are_made_in_the_next_pass_even_if_their_sequence_is_gone_by_then() -> None:
    subject = scheduler()
    leaving, staying = decoding(subject, 2, length=BLOCK_SIZE)
    first = leaving.blocks[0] * BLOCK_SIZE
    leaving.moves = [Move(first + 9, first + 3)]
    subject.settle(leaving)
    subject.remove(leaving)
    assert [item.sequence for item in subject.schedule(no_block)] == [staying]
    assert Move(first + 9, first + 3) in subject.take_moves()


def test_a_rejected_suffix_gives_its_blocks_back_at_once() -> None:
    subject = scheduler()
    [sequence] = decoding(subject, 1, length=BLOCK_SIZE - 2)
    before = subject.num_free_blocks
    work = subject.schedule(lambda _: block_of(3 * BLOCK_SIZE))
    assert subject.num_fragments == 3
    computed(work, accepted=0)
    subject.settle(sequence)
    assert (subject.num_fragments, subject.num_free_blocks) == (0, before)


def test_a_sequence_alone_in_a_full_pool_may_still_write_to_what_the_cache_remembers() -> None:
    subject = scheduler(num_blocks=2, max_batch_tokens=64)
    for _ in range(2):
        sequence = make_sequence([1] * 2 * BLOCK_SIZE, max_length=2 * BLOCK_SIZE + 1)
        subject.add(sequence)
        subject.admit()
        [work] = subject.schedule(no_block)
        assert len(set(sequence.blocks)) == 2
        sequence.num_computed += work.count
        subject.settle(sequence)
        subject.remove(sequence)
        assert subject.take_moves() == []
    assert sequence.cached_tokens == 2 * BLOCK_SIZE - 1


def test_when_blocks_run_out_the_newest_sequence_gives_its_own_up_and_joins_first_again() -> None:
    subject = scheduler(num_blocks=3)
    oldest, middle, newest = decoding(subject, 3, length=BLOCK_SIZE - 1)
    queued = prompt(1)
    subject.add(queued)
    work = subject.schedule(no_block)
    assert [item.sequence for item in work] == [oldest, middle, newest]
    computed(work)
    work = subject.schedule(no_block)
    assert [item.sequence for item in work] == [oldest]
    assert list(subject.waiting) == [middle, newest, queued]
    assert (newest.blocks, newest.num_computed) == ([], 0)
    assert subject.num_free_blocks == 1


def test_a_sequence_that_was_already_planned_can_still_be_the_one_to_give_way() -> None:
    subject = scheduler(num_blocks=3, max_batch_tokens=64)
    decoder = prompt(4)
    prefill = prompt(BLOCK_SIZE)
    subject.add(prefill)
    subject.add(decoder)
    subject.admit()
    work = subject.schedule(lambda sequence: block_of(2 * BLOCK_SIZE) if sequence is prefill else None)
    assert decoder in [*subject.running, *subject.waiting]
    assert len(prefill.blocks) * BLOCK_SIZE >= 3 * BLOCK_SIZE
    assert [item.sequence for item in work] == [prefill]
    assert list(subject.waiting) == [decoder]


def test_a_cut_tree_is_a_tree_of_its_first_guesses() -> None:
    subject = scheduler(max_batch_tokens=16)
    (sequence,) = decoding(subject, 1)
    tree = Block(1, 4, (1,) * 30, parents=tuple(node // 2 - 1 for node in range(30)))
    (work,) = subject.schedule(lambda _: tree)
    assert work.sequence is sequence
    assert work.block == tree.prefix(15)
    assert len(work.block.parents) == 15


def test_a_branch_is_moved_before_the_next_pass_whether_its_sequence_is_in_it_or_not() -> None:
    subject = scheduler(max_batch_tokens=16)
    sequences = decoding(subject, 2)
    subject.schedule(lambda sequence: block_of(5))
    moves = []
    for sequence in sequences:
        sequence.keep((1, 4))
        moves += sequence.moves
        sequence.tokens += [1] * 3
        subject.settle(sequence)
    assert len(moves) == 4
    assert len(subject.schedule(lambda sequence: block_of(15))) == 1
    assert subject.take_moves() == moves
    assert subject.take_moves() == []


def test_removing_a_sequence_frees_its_blocks_wherever_it_is() -> None:
    subject = scheduler(max_running=1)
    running, waiting, stranger = prompt(40), prompt(4), prompt(4)
    subject.add(running)
    subject.add(waiting)
    subject.admit()
    assert subject.num_free_blocks < 64
    for sequence in (waiting, stranger, running):
        subject.remove(sequence)
    assert (subject.running, list(subject.waiting), subject.num_free_blocks) == ([], [], 64)


@given(st.data())
def test_blocks_are_never_shared_never_lost_and_everyone_gets_done(data: st.DataObject) -> None:
    num_blocks = data.draw(st.integers(4, 12), "blocks")
    subject = scheduler(num_blocks=num_blocks, max_running=4, max_waiting=64, max_batch_tokens=24)
    most = num_blocks * BLOCK_SIZE - 8
    lengths = data.draw(st.lists(st.integers(1, most - 1), min_size=1, max_size=6), "prompts")
    alive = [make_sequence([1] * length, max_length=min(most, length + 30)) for length in lengths]
    for sequence in alive:
        subject.add(sequence)
    for _ in range(600):
        subject.admit()
        guesses = data.draw(st.integers(0, 8), "guesses") if len(alive) < 3 else 2
        work = subject.schedule(lambda s, n=guesses: block_of(min(n, s.num_left - 1)))  # type: ignore[misc]
        assert work, "nothing to do while sequences wait"
        held = [block for sequence in [*subject.running, *subject.waiting] for block in sequence.blocks]
        assert len(set(held)) == len(held) == num_blocks - subject.num_free_blocks
        for item in work:
            needed = item.sequence.num_computed + item.count + len(item.guesses)
            assert len(item.sequence.blocks) * BLOCK_SIZE >= needed
        computed(work)
        for sequence in [s for s in alive if s.num_left <= 0]:
            subject.remove(sequence)
            alive.remove(sequence)
        if not alive:
            break
    assert not alive
    assert subject.num_free_blocks == num_blocks


def rows_of(count: int) -> Callable[[Sequence], Rows]:
    return lambda sequence: Rows((1,) * count, trees.chain(count), asked=1)


def test_rows_that_look_ahead_get_what_the_budget_leaves_and_prompts_get_it_first() -> None:
    subject = scheduler(max_batch_tokens=24)
    decoding(subject, 2)
    widened = subject.widen(subject.schedule(lambda _: block_of(4)), rows_of(9))
    assert [item.num_rows for item in widened] == [5 + 9, 5]
    computed(widened)
    subject.add(prompt(60))
    subject.admit()
    assert sum(item.num_rows for item in subject.schedule(no_block)) == 24
    assert all(item.rows is None for item in subject.widen(subject.schedule(no_block), rows_of(1)))


def test_a_prompt_that_is_not_at_its_end_looks_at_nothing_ahead() -> None:
    subject = scheduler(max_batch_tokens=24)
    subject.add(prompt(30))
    subject.admit()
    assert [item.rows for item in subject.widen(subject.schedule(no_block), rows_of(0))] == [None]


def test_rows_that_look_ahead_take_free_blocks_only() -> None:
    subject = scheduler(num_blocks=3)
    first, second = decoding(subject, 2)
    widened = subject.widen(subject.schedule(no_block), rows_of(BLOCK_SIZE))
    assert [item.rows is None for item in widened] == [False, True]
    assert subject.num_free_blocks == 0
    assert subject.running == [first, second]
    computed(widened)
    for sequence in (first, second):
        subject.settle(sequence)
    assert subject.num_free_blocks == 1
