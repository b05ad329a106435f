"""What the kernel computes hardly depends on the processor."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from common.model.batch import Segment
from common.model.fused import library
from tests.support import fused
from tests.support.fused import VOCABULARY
from tests.support.kernels import environment
from tests.support.streams import token_ids

pytestmark = pytest.mark.timeout(600)  # up to four kernels are compiled, once per machine
WEIGHTS = ("float32", "bfloat16", "int8", "int4")
NEEDS: dict[str, Callable[[], bool]] = {
    "avx2": torch.cpu._is_avx2_supported,
    "avx512": lambda: torch.cpu._is_avx512_supported() and torch.cpu._is_vnni_supported(),
    "avx512-bf16": torch.cpu._is_avx512_bf16_supported,
    "generic": lambda: True,
}


def logits(isa: str, weights: str) -> Tensor:
    """Of a chain and of a tree behind it; skips where the processor lacks the instructions."""
    if not NEEDS[isa]():
        pytest.skip(f"this processor has no {isa}")
    tokens, parents = token_ids(random.Random(1), 45, VOCABULARY), [-1, -1, 0, 2]
    with environment(TANDEM_KERNEL_ISA=isa):
        runner = fused.runner_of(fused.model("llama with three heads to a key head"), weights, threads=2)
        chain = runner.run([Segment(tokens[:40], 0, [3, 1, 7], logits=40)])[0].logits
        tree = runner.run([Segment(tokens[40:], 40, [3, 1, 7], logits=5, parents=parents)])[0].logits
    return torch.cat([chain, tree])


@pytest.mark.parametrize("weights", WEIGHTS)
def test_avx2_and_avx512_give_the_same_bits(weights: str) -> None:
    assert torch.equal(logits("avx2", weights), logits("avx512", weights))


@pytest.mark.parametrize("weights", ["float32", "int8", "int4"])
def test_instructions_for_bfloat16_change_nothing_where_there_is_none(weights: str) -> None:
    assert torch.equal(logits("avx512", weights), logits("avx512-bf16", weights))


@pytest.mark.parametrize("isa", ["avx2", "avx512-bf16"])
def test_a_kernel_without_vector_instructions_stays_near(isa: str) -> None:
    torch.testing.assert_close(logits("generic", "float32"), logits(isa, "float32"), atol=1e-3, rtol=0)


@pytest.mark.parametrize("weights", ["bfloat16", "int8", "int4"])
def test_without_them_rounded_weights_round_otherwise_now_and_then(weights: str) -> None:
    plain, best = logits("generic", weights), logits("avx2", weights)
    assert (plain - best).norm() < 0.05 * best.norm()


@pytest.mark.parametrize(("isa", "same"), [("avx2", True), ("avx512", True), ("generic", False)])
def test_numerics_are_named_alike_where_the_bits_are(isa: str, same: bool) -> None:
    with environment(TANDEM_KERNEL_ISA="avx512-bf16"):
        best = {weights: library.numerics(weights) for weights in WEIGHTS}
    with environment(TANDEM_KERNEL_ISA=isa):
        for weights in WEIGHTS:
            assert (library.numerics(weights) == best[weights]) == (same and weights != "bfloat16")


def test_an_unknown_instruction_set_is_refused_with_those_known() -> None:
    with environment(TANDEM_KERNEL_ISA="mmx"), pytest.raises(library.Unavailable, match="avx2, generic"):
        library.load()
