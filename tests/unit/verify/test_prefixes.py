"""A block has one name in two sequences when they agree on all tokens up to its end, and on the salt."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from common.model.block_manager import BLOCK_SIZE
from verify_service.prefixes import PrefixHasher

HASHER = PrefixHasher()
TOKENS = st.lists(st.integers(0, 2), min_size=0, max_size=5 * BLOCK_SIZE)
SALTS = st.sampled_from(["", "a", "b", "a" * 200, "ä"])


def names(tokens: list[int], salt: str = "", hasher: PrefixHasher = HASHER) -> list[bytes]:
    made: list[bytes] = []
    hasher.extend(made, tokens, salt, len(tokens) // BLOCK_SIZE)
    return made


def common(left: list[bytes], right: list[bytes]) -> int:
    return sum(a == b for a, b in zip(left, right, strict=False))


@given(TOKENS, TOKENS, TOKENS, SALTS, SALTS)
def test_names_agree_on_whole_blocks_of_a_common_beginning_and_nowhere_else(
    start: list[int], left: list[int], right: list[int], salt: str, other: str
) -> None:
    left, right = start + left, start + right
    same = next((i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), None)
    same = min(len(left), len(right)) if same is None else same
    assert common(names(left, salt), names(right, salt)) == same // BLOCK_SIZE
    if salt != other:
        assert not set(names(left, salt)) & set(names(right, other))


@given(TOKENS, st.integers(0, 5))
def test_names_that_are_made_bit_by_bit_are_those_made_at_once(tokens: list[int], early: int) -> None:
    made: list[bytes] = []
    for count in (min(early, len(tokens) // BLOCK_SIZE), len(tokens) // BLOCK_SIZE):
        HASHER.extend(made, tokens, "salt", count)
    assert made == names(tokens, "salt")


def test_equal_blocks_in_a_row_have_names_of_their_own() -> None:
    assert len(set(names([1] * 4 * BLOCK_SIZE))) == 4


def test_no_name_can_be_worked_out_outside_the_process() -> None:
    tokens = [1] * BLOCK_SIZE
    assert names(tokens) != names(tokens, hasher=PrefixHasher())
    assert {len(name) for name in names(tokens)} == {16}
