from __future__ import annotations

import itertools

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from common.model.block_manager import BLOCK_SIZE, BlockManager

NUM_BLOCKS = 12


class Owners(RuleBasedStateMachine):
    """Owners that grow, share, remember and leave; checked against a plain list of who holds what."""

    def __init__(self) -> None:
        super().__init__()
        self.manager = BlockManager(NUM_BLOCKS)
        self.held: list[list[int]] = []
        self.remembered: dict[int, bytes] = {}
        self.names = itertools.count()

    @property
    def free(self) -> set[int]:
        return set(range(NUM_BLOCKS)) - {block for blocks in self.held for block in blocks}

    @property
    def empty(self) -> set[int]:
        return self.free - set(self.remembered)

    def allocate(self, count: int, after: list[int], hint: int = 0) -> list[int]:
        free, empty = self.free, self.empty
        blocks = self.manager.allocate(count, after=after, hint=hint)
        assert len(set(blocks)) == len(blocks) == count
        assert set(blocks) <= free
        assert set(blocks) <= empty or empty <= set(blocks), "a remembered block went before an empty one"
        for block in blocks:
            self.remembered.pop(block, None)
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
        available = neighbours <= self.empty
        blocks = self.allocate(count, owner)
        if owner and available:
            assert blocks == sorted(neighbours)
        owner += blocks

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def an_owner_is_joined_by_another(self, data: st.DataObject) -> None:
        blocks = list(data.draw(st.sampled_from(self.held)))
        self.manager.share(blocks)
        self.held.append(blocks)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def an_owners_blocks_are_remembered(self, data: st.DataObject) -> None:
        for block in data.draw(st.sampled_from(self.held)):
            if block not in self.remembered:
                self.remembered[block] = b"%d" % next(self.names)
                self.manager.remember(block, self.remembered[block])

    @precondition(lambda self: self.remembered)
    @rule(data=st.data())
    def a_remembered_block_is_found_again(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.remembered.values())))
        [block] = self.manager.find([name, b"unknown", name])
        assert self.remembered[block] == name
        self.manager.share([block])
        self.held.append([block])

    @rule()
    def everything_is_forgotten(self) -> None:
        self.manager.forget_all()
        self.remembered.clear()

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
        for block in range(NUM_BLOCKS):
            holders = sum(blocks.count(block) for blocks in self.held)
            assert self.manager.holders(block) == holders
            assert self.manager.is_shared(block) == (holders > 1 or block in self.remembered)


TestOwners = Owners.TestCase
TestOwners.settings = settings(max_examples=100, stateful_step_count=20, deadline=None)


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


def remembered(manager: BlockManager, *names: bytes) -> list[int]:
    """Blocks that hold a chain of these names."""
    blocks = manager.allocate(len(names))
    for block, name in zip(blocks, names, strict=True):
        manager.remember(block, name)
    return blocks


def test_a_chain_is_found_up_to_its_first_gap_and_by_nothing_but_its_names() -> None:
    manager = BlockManager(8)
    first, second, _ = remembered(manager, b"1", b"2", b"3")
    assert manager.find([b"1", b"2", b"x", b"3"]) == [first, second]
    assert manager.find([b"2", b"1"]) == [second, first]
    assert manager.find([b"x", b"1"]) == manager.find([]) == []


def test_the_first_block_of_a_content_stays_the_one_that_is_found() -> None:
    manager = BlockManager(4)
    [first] = remembered(manager, b"same")
    [second] = remembered(manager, b"same")
    assert manager.find([b"same"]) == [first]
    assert not manager.is_shared(second)
    manager.free([second])
    assert manager.find([b"same"]) == [first]


def test_remembered_blocks_that_nobody_holds_are_free_and_still_found() -> None:
    manager = BlockManager(4)
    blocks = remembered(manager, b"1", b"2")
    manager.free(blocks)
    assert manager.num_free == 4
    assert manager.find([b"1", b"2"]) == blocks
    manager.share(blocks)
    assert manager.num_free == 2
    assert not set(manager.allocate(2)) & set(blocks)


def test_empty_blocks_are_given_out_before_any_that_is_remembered() -> None:
    manager = BlockManager(4)
    blocks = remembered(manager, b"1", b"2")
    manager.free(blocks)
    manager.free(manager.allocate(2))
    assert not set(manager.allocate(2)) & set(blocks)
    assert (manager.find([b"1", b"2"]), manager.num_evicted) == (blocks, 0)


def test_the_longest_unused_is_forgotten_first_and_a_tail_before_its_head() -> None:
    manager = BlockManager(5)
    used_again, unused = remembered(manager, b"a1", b"a2"), remembered(manager, b"b1", b"b2", b"b3")
    manager.free(used_again)
    manager.free(unused)
    manager.share(used_again)
    manager.free(used_again)
    found = []
    for _ in range(5):
        manager.allocate(1)
        found.append((len(manager.find([b"a1", b"a2"])), len(manager.find([b"b1", b"b2", b"b3"]))))
    assert found == [(2, 2), (2, 1), (2, 0), (1, 0), (0, 0)]
    assert manager.num_evicted == 5


def test_a_block_that_was_given_to_another_is_not_found_any_more() -> None:
    manager = BlockManager(1)
    manager.free(remembered(manager, b"old"))
    assert manager.allocate(1) == [0]
    assert manager.find([b"old"]) == []
    assert not manager.is_shared(0)


def test_only_what_is_held_can_be_remembered() -> None:
    manager = BlockManager(1)
    manager.free(manager.allocate(1))
    with pytest.raises(AssertionError):
        manager.remember(0, b"1")
