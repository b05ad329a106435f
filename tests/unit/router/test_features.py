"""The numbers that a prompt becomes."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from numpy.typing import NDArray

from router.classifier import features

PROMPT = "Translate into German: it's 7 o'clock, 翻译 😀"
DIGEST = f"""
import zlib
from router.classifier import features
found = features.extract({PROMPT!r}, 4000)
print(zlib.crc32(found.indices.tobytes()), zlib.crc32(found.values.tobytes()))
"""


def dense(head: str, prompt_characters: int | None = None) -> NDArray[np.float64]:
    found = features.extract(head, len(head) if prompt_characters is None else prompt_characters)
    counted: NDArray[np.float64] = np.bincount(found.indices, found.values, features.SIZE).astype(np.float64)
    return counted


def in_a_new_process(hash_seed: str) -> str:
    environment = os.environ | {"PYTHONHASHSEED": hash_seed}
    done = subprocess.run(
        [sys.executable, "-c", DIGEST], env=environment, check=True, capture_output=True, text=True
    )
    return done.stdout


def test_every_process_finds_the_same() -> None:
    assert in_a_new_process("1") == in_a_new_process("2") != ""


def test_indices_are_within_the_vector_and_have_a_value_each() -> None:
    found = features.extract(PROMPT, 4000)
    assert len(found.indices) == len(found.values)
    assert found.indices.min() >= 0 and found.indices.max() == features.SIZE - 1
    assert found.values.dtype == np.float32 and np.isfinite(found.values).all()


def test_numbers_and_capitals_do_not_change_the_n_grams() -> None:
    same = dense("add 12 and 7")[: features.BUCKETS], dense("ADD 38 and 5")[: features.BUCKETS]
    assert np.array_equal(*same)
    assert not np.array_equal(dense("add 12 and 7"), dense("ADD 38 and 5"))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("write a poem", "a poem write"),
        ("用英文写诗", "写诗用英文"),
        ("x" * 100 + " why", "x" * 101 + "why"),
        ("is it", "is it?"),
        ("ab", "ab\n"),
    ],
)
def test_the_order_the_words_and_the_signs_count(one: str, other: str) -> None:
    assert not np.array_equal(dense(one), dense(other))


def test_the_length_of_the_prompt_counts_beyond_what_the_head_shows() -> None:
    for head in ("Who wrote Faust?", "y" * 200):
        assert not np.array_equal(dense(head, 300), dense(head, 9000))


def test_nothing_after_the_head_counts() -> None:
    assert np.array_equal(dense("y" * 200 + "why?", 999), dense("y" * 200, 999))


def test_a_word_is_found_wherever_it_stands() -> None:
    """Most n-grams of a text come back when it is moved."""
    moved = dense("x " * 40 + "translate this sentence"), dense("x " * 50 + "translate this sentence")
    shared = np.minimum(*moved).sum() / np.maximum(*moved).sum()
    assert shared > 0.8
