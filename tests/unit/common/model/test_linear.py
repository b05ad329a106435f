from __future__ import annotations

import pytest
import torch
from torch import nn

from common.model import linear
from common.model.linear import PackedLinear


def layer(bias: bool) -> nn.Linear:
    generator = torch.Generator().manual_seed(1)
    made = nn.Linear(48, 80, bias=bias)
    for parameter in made.parameters():
        parameter.requires_grad_(False).normal_(generator=generator)
    return made


def rows(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(2))


@pytest.mark.parametrize("bias", [True, False])
def test_a_packed_layer_computes_what_the_stock_layer_does_for_any_number_of_rows(bias: bool) -> None:
    stock = layer(bias)
    packed = PackedLinear(stock)
    for count in range(1, 65):
        x = rows(count, 48)
        torch.testing.assert_close(packed(x), stock(x), atol=1e-4, rtol=0)


def test_leading_dimensions_are_kept() -> None:
    stock = layer(bias=True)
    x = rows(2, 3, 48)
    torch.testing.assert_close(PackedLinear(stock)(x), stock(x), atol=1e-4, rtol=0)


def test_no_rows_give_no_rows() -> None:
    assert PackedLinear(layer(bias=True))(rows(0, 48)).shape == (0, 80)


def test_packing_replaces_nested_float32_layers_and_nothing_else() -> None:
    inner = nn.Sequential(layer(bias=True), nn.LayerNorm(80))
    half = layer(bias=False).to(torch.bfloat16)
    model = nn.ModuleDict({"inner": inner, "lower": half, "embedding": nn.Embedding(3, 4)})
    linear.pack(model)
    assert isinstance(inner[0], PackedLinear)
    assert isinstance(inner[1], nn.LayerNorm)
    assert model["lower"] is half
    assert isinstance(model["embedding"], nn.Embedding)


def test_packing_twice_is_packing_once() -> None:
    model = nn.Sequential(layer(bias=True))
    linear.pack(model)
    once = model[0]
    linear.pack(model)
    assert model[0] is once
