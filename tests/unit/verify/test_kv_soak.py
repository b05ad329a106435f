"""Thousands of passes in which anything happens: no block is lost, leaked, torn or overwritten."""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Sequence as Seq

import pytest
import torch

from common import trees
from common.draft_types import Block
from common.model.batch import Move, Output, Segment
from common.model.block_manager import BLOCK_SIZE, BlockManager
from tests.unit.verify.kv_steps import Ran, assert_consistent, commit, one_pass
from tests.unit.verify.support import counting, make_sequence
from verify_service.drafts.lookahead.window import Rows
from verify_service.scheduler import Scheduler
from verify_service.sequence import Sequence

STEPS = 4000
NUM_BLOCKS = 14
LONGEST = 120
MOST_GUESSES = 20
TOKENS = range(3)
NOTHING = Output(torch.empty(0))


def after(history: int, token_id: int) -> int:
    """What a slot holds of a token: as with keys and values, all tokens before it show in it."""
    return hash((history, token_id))


class HistoryRunner:
    """Keeps in each slot the history of its token; checks what it reads and that it may write.

    ``fail_next``: stop in the middle of the moves.
    """

    def __init__(self, pool: BlockManager) -> None:
        self._pool = pool
        self._slots: dict[int, int] = {}
        self.num_moves = 0
        self.fail_next = False

    def run(self, segments: Seq[Segment], moves: Seq[Move] = ()) -> list[Output]:
        self._move(moves)
        if self.fail_next:
            self.fail_next = False
            raise RuntimeError("told to fail")
        users = Counter(block for segment in segments for block in segment.blocks)
        for segment in segments:
            for slot in _written(segment):
                block = slot // BLOCK_SIZE
                assert users[block] == 1
                assert not self._pool.is_shared(block)
            self._write(segment)
        return [NOTHING] * len(segments)

    def check(self, sequence: Sequence) -> None:
        """That the blocks of a sequence hold its own tokens, up to the last computed one."""
        history = 0
        for position, token_id in enumerate(sequence.tokens[: sequence.num_computed]):
            history = after(history, token_id)
            assert self._slots[_slot(sequence.blocks, position)] == history, (
                f"position {position} holds something else"
            )

    def _move(self, moves: Seq[Move]) -> None:
        moves = moves[: len(moves) // 2] if self.fail_next else moves
        self.num_moves += len(moves)
        self._slots |= {move.target: self._slots[move.source] for move in moves}

    def _write(self, segment: Segment) -> None:
        slots = _written(segment)
        root = len(slots) - len(segment.parents)
        history = self._slots[_slot(segment.blocks, segment.start - 1)] if segment.start else 0
        histories: list[int] = []
        for index, token_id in enumerate(segment.token_ids):
            parent = segment.parents[index - root] if index >= root else index - 1 - root
            at = root + parent
            histories.append(after(histories[at] if at >= 0 else history, token_id))
        self._slots |= dict(zip(slots, histories, strict=True))


class Traffic:
    """Tenants whose prompts begin alike, conversations that go on, drafts that are chains and trees, clients
    that leave, come again and fork, passes that fail."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self.pool = BlockManager(NUM_BLOCKS)
        self.scheduler = Scheduler(self.pool, max_running=6, max_waiting=6, max_batch_tokens=64)
        self.runner = HistoryRunner(self.pool)
        self._openings = [self._tokens(self._chance.randint(1, 80)) for _ in range(4)]
        self._ended: deque[Sequence] = deque(maxlen=4)
        self.happened: Counter[str] = Counter()

    def step(self) -> None:
        self._come_and_go()
        self.runner.fail_next = self._chance.random() < 0.02
        try:
            ran = one_pass(self.scheduler, self.runner, self._block, self._rows)
        except RuntimeError:
            self._fail()
            return
        if self._chance.random() < 0.05:
            self._leave()  # while the pass runs
        for part in ran:
            if part.work.sequence in self.scheduler.running:
                self._accept(part)
        for sequence in list(self.scheduler.running):
            if sequence.num_left <= 0:
                self._end(sequence, "finished")

    def check(self) -> None:
        assert_consistent(self.pool, self.scheduler)

    def _tokens(self, count: int) -> list[int]:
        return self._chance.choices(TOKENS, k=count)

    def _come_and_go(self) -> None:
        scheduler, chance = self.scheduler, self._chance
        if chance.random() < 0.3 and len(scheduler.waiting) < 5:
            scheduler.add(self._request())
        if chance.random() < 0.03:
            self._leave()
        if chance.random() < 0.05 and len(scheduler.waiting) < 5 and scheduler.running:
            sequence = chance.choice(scheduler.running)
            twin = make_sequence(
                sequence.tokens, max_length=sequence.max_length, cache_salt=sequence.request.cache_salt
            )
            scheduler.fork(sequence, twin)
            self.happened["forked"] += bool(twin.blocks)

    def _request(self) -> Sequence:
        """Of a new conversation, or of the next turn of an old one."""
        chance = self._chance
        opening, salt = chance.choice(self._openings), chance.choice(["", "a", "b"])
        opening = opening[: chance.randint(1, len(opening))]
        if self._ended and chance.random() < 0.4:
            opening, salt = self._ended[-1].tokens, self._ended[-1].request.cache_salt
        tokens = [*opening[: LONGEST - 5], *self._tokens(chance.randint(0, 4))]
        longest = min(LONGEST, len(tokens) + chance.randint(1, 60))
        return make_sequence(tokens, max_length=longest, cache_salt=salt)

    def _leave(self) -> None:
        everyone = [*self.scheduler.running, *self.scheduler.waiting]
        if everyone:
            self._end(self._chance.choice(everyone), "left")

    def _end(self, sequence: Sequence, how: str) -> None:
        self.scheduler.remove(sequence)
        self._ended.append(sequence)
        self.happened[how] += 1

    def _fail(self) -> None:
        for sequence in list(self.scheduler.running):
            self._end(sequence, "failed")
        self.scheduler.forget_prefixes()

    def _block(self, sequence: Sequence) -> Block | None:
        count = self._chance.choice([0, 1, 4, MOST_GUESSES])
        if not count:
            return None
        tree = self._chance.random() < 0.5
        parents = tuple(self._chance.randint(-1, index - 1) for index in range(count)) if tree else ()
        return Block(1, len(sequence.tokens), tuple(self._tokens(count)), parents)

    def _rows(self, sequence: Sequence) -> Rows | None:
        """That look ahead, now and then."""
        count = self._chance.choice([0, 0, 6, MOST_GUESSES])
        return Rows(tuple(self._tokens(count)), trees.chain(count), asked=1) if count else None

    def _accept(self, ran: Ran) -> None:
        accepted = self._branch(ran.work.block) if ran.work.completes and ran.work.block else []
        sequence = ran.work.sequence
        slots = _written(ran.segment)[ran.work.count :]
        sequence.moves = [Move(slots[node], slots[place]) for place, node in enumerate(accepted)]
        self.happened["looked ahead"] += ran.work.rows is not None
        self.happened["compacted"] += any(node != place for place, node in enumerate(accepted))
        self.runner.check(sequence)
        commit(self.scheduler, ran, accepted, self._chance.choice(TOKENS))

    def _branch(self, block: Block) -> list[int]:
        """Some node with its ancestors, or none."""
        node, branch = self._chance.randint(-1, len(block.token_ids) - 1), []
        while node >= 0:
            branch.append(node)
            node = block.parents[node] if block.parents else node - 1
        return branch[::-1]


def _written(segment: Segment) -> list[int]:
    """The slots of its tokens."""
    positions = range(segment.start, segment.start + len(segment.token_ids))
    return [_slot(segment.blocks, position) for position in positions]


def _slot(blocks: Seq[int], position: int) -> int:
    return blocks[position // BLOCK_SIZE] * BLOCK_SIZE + position % BLOCK_SIZE


@pytest.mark.parametrize("seed", range(3))
def test_after_any_pass_every_block_is_accounted_for_and_holds_what_it_should(seed: int) -> None:
    traffic = Traffic(seed)
    with (
        counting("tandem_prefix_cache_hits_total") as hits,
        counting("tandem_prefix_cache_evictions_total") as evictions,
        counting("tandem_num_preemptions_total") as preemptions,
    ):
        for _ in range(STEPS):
            traffic.step()
            traffic.check()
    happened = traffic.happened
    kinds = ("finished", "left", "forked", "failed", "compacted", "looked ahead")
    assert min(happened[what] for what in kinds) > 10, happened
    assert min(hits.by, evictions.by, preemptions.by, traffic.runner.num_moves) > 100
