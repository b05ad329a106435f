from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from common.model.block_manager import BLOCK_SIZE, BlockManager

NUM_BLOCKS = 12


class Owners(RuleBasedStateMachine):
    """Owners that grow and leave; the manager is checked against a plain list of who holds what."""

    def __init__(self) -> None:
        super().__init__()
        self.manager = BlockManager(NUM_BLOCKS)
        self.held: list[list[int]] = []

    @property
    def free(self) -> set[int]:
        return set(range(NUM_BLOCKS)) - {block for blocks in self.held for block in blocks}

    def allocate(self, count: int, after: list[int], hint: int = 0) -> list[int]:
        free = self.free
        blocks = self.manager.allocate(count, after=after, hint=hint)
        assert len(set(blocks)) == len(blocks) == count
        assert set(blocks) <= free
        return blocks

    @rule(data=st.data(), hint=st.integers(0, NUM_BLOCKS))
    def a_new_owner_takes_some(self, data: st.DataObject, hint: int) -> None:
        self.held.append(self.allocate(data.draw(st.integers(0, self.manager.num_free)), [], hint))

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def an_owner_grows(self, data: st.DataObject) -> None:
        owner = data.draw(st.sampled_from(self.held))
        count = data.draw(st.integers(0, self.manager.num_free))
        neighbours = set(range(owner[-1] + 1, owner[-1] + 1 + count)) if owner else set()
        available = neighbours <= self.free
        blocks = self.allocate(count, owner)
        if owner and available:
            assert blocks == sorted(neighbours)
        owner += blocks

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def an_owner_leaves(self, data: st.DataObject) -> None:
        index = data.draw(st.integers(0, len(self.held) - 1))
        self.manager.free(self.held.pop(index))

    @invariant()
    def the_counts_are_right(self) -> None:
        assert self.manager.num_free == len(self.free)
        assert self.manager.can_allocate(self.manager.num_free)
        assert not self.manager.can_allocate(self.manager.num_free + 1)


TestOwners = Owners.TestCase
TestOwners.settings = settings(max_examples=60, stateful_step_count=20, deadline=None)


@pytest.mark.parametrize(
    ("tokens", "blocks"), [(0, 0), (1, 1), (BLOCK_SIZE, 1), (BLOCK_SIZE + 1, 2), (10 * BLOCK_SIZE, 10)]
)
def test_a_started_block_counts_whole(tokens: int, blocks: int) -> None:
    assert BlockManager.blocks_for(tokens) == blocks


def test_owners_get_neighbouring_blocks_one_after_the_other() -> None:
    manager = BlockManager(8)
    assert [manager.allocate(3), manager.allocate(2)] == [[0, 1, 2], [3, 4]]


def test_a_run_that_fits_is_preferred_to_the_first_free_blocks() -> None:
    manager = BlockManager(8)
    gap, _ = manager.allocate(1), manager.allocate(1)
    manager.free(gap)
    assert manager.allocate(3) == [2, 3, 4]


def test_scattered_blocks_are_given_where_there_is_no_run() -> None:
    manager = BlockManager(4)
    blocks = manager.allocate(4)
    manager.free([blocks[0]])
    manager.free([blocks[2]])
    assert manager.allocate(2) == [0, 2]


def test_an_owner_grows_into_the_next_block() -> None:
    manager = BlockManager(8)
    gap, owner = manager.allocate(2), manager.allocate(2)
    manager.free(gap)
    assert manager.allocate(1, after=owner) == [4]


def test_an_owner_grows_into_the_last_block() -> None:
    manager = BlockManager(4)
    gap, owner = manager.allocate(2), manager.allocate(1)
    manager.free(gap)
    assert manager.allocate(1, after=owner) == [3]


def test_a_hint_sets_the_owner_down_where_it_can_grow() -> None:
    manager = BlockManager(10)
    gap, _ = manager.allocate(2), manager.allocate(1)
    manager.free(gap)
    owner = manager.allocate(1, hint=5)
    assert owner == [3]
    assert manager.allocate(4, after=owner) == [4, 5, 6, 7]


def test_a_hint_that_cannot_be_met_does_no_harm() -> None:
    assert BlockManager(3).allocate(2, hint=100) == [0, 1]


def test_giving_a_block_back_twice_is_noticed() -> None:
    manager = BlockManager(2)
    blocks = manager.allocate(1)
    manager.free(blocks)
    with pytest.raises(AssertionError):
        manager.free(blocks)


def test_asking_for_more_than_is_free_is_noticed() -> None:
    with pytest.raises(AssertionError):
        BlockManager(2).allocate(3)
