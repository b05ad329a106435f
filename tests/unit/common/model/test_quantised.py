"""Quantised weights choose the tokens that float32 chooses, but for close calls."""

from __future__ import annotations

from typing import Any

import pytest
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from common.model import linear, store
from common.model.batch import Segment
from common.model.fused.architecture import Architecture
from common.model.fused.runner import FusedRunner
from common.model.linear import KernelLinear, TorchLinear
from common.model.runner import ModelRunner
from tests.support.kernels import environment
from tests.support.models import livened, reference_logits, tiny_model
from tests.unit.common.model.test_runner import CONFIGS

PROSE = """The lighthouse stood at the end of a long spit of sand, and for most of the year nobody went there
but the keeper and the birds. In the winter of 1911 the supply boat was late. Ice had closed the
harbour, and the captain, who had a family and no wish to drown, waited eleven days for a wind from
the south. When he finally came alongside the jetty there was no smoke from the chimney, no lamp in
the window and no dog on the path. He found the door unlocked, a pot of soup on the table and the
log book open. The last entry gave the date, the pressure and the direction of the wind, and then,
in the same careful hand: "The light is in order. I have gone to look at the water." Engineers who
came later measured the tower and found that it leaned by less than a degree. They replaced the
lens, painted the railing and wrote a report of forty pages, of which the first thirty were about
paint. Today the lamp is electric, and a computer in a town sixty miles away turns it on and off.
Visitors may climb the 199 steps between May and September; children under six are not admitted."""


def log_probabilities(weights: str, folder: str, token_ids: list[int]) -> Tensor:
    blocks = range(-(-len(token_ids) // 16))
    architecture = Architecture.of(store.load_config(folder))
    with store.open_tensors(folder) as tensors:
        runner = FusedRunner(architecture, tensors, weights=weights, num_blocks=len(blocks), threads=2)
    return runner.run([Segment(token_ids, 0, blocks, logits=len(token_ids))])[0].logits.log_softmax(-1)


@pytest.mark.embedded
def test_the_embedded_model_in_int4_differs_from_float32_in_close_calls_alone() -> None:
    """Its weights are the same: what differs are inputs rounded to 8 bits and keys and values to 16."""
    folder = store.resolve(store.EMBEDDED)
    token_ids = [int(token_id) for token_id in store.load_tokenizer(folder)(PROSE)["input_ids"]]
    rounded, exact = (log_probabilities(weights, folder, token_ids) for weights in ("int4", "float32"))
    divergence = nn.functional.kl_div(rounded, exact, log_target=True, reduction="batchmean")
    first, second = exact.topk(2).values.unbind(-1)
    same = rounded.argmax(-1) == exact.argmax(-1)
    assert len(token_ids) > 200
    assert divergence < 0.01
    assert same.float().mean() > 0.92
    assert same[first - second > 0.5].all()


@pytest.mark.parametrize("weights", ["int8", "int4"])
@pytest.mark.parametrize("compiler", [True, False])
@pytest.mark.parametrize(
    "architecture", ["llama", "gemma2", "gemma3, every third layer looks at all", "phi3", "gpt2"]
)
def test_every_linear_of_any_family_is_quantised_and_its_logits_stay_near(
    architecture: str, compiler: bool, weights: str, tmp_path: Any
) -> None:
    reference = livened(tiny_model(1, attention="eager", config=CONFIGS[architecture]()), seed=1)
    model = livened(tiny_model(1, config=CONFIGS[architecture]()), seed=1)
    if compiler:
        linear.quantise(model, weights, threads=2)
    else:
        with environment(CXX="/nonexistent/c++", TANDEM_CACHE_DIR=str(tmp_path)):
            linear.quantise(model, weights, threads=2)
    kinds = {type(module) for module in model.modules()}
    assert not kinds & {nn.Linear, Conv1D}
    assert kinds & {KernelLinear, TorchLinear} == {KernelLinear if compiler else TorchLinear}
    token_ids = list(range(5, 45))
    logits = ModelRunner(model, 4).run([Segment(token_ids, 0, [2, 1, 3], logits=40)])[0].logits
    expected = reference_logits(reference, token_ids, attention="eager")
    similarity = nn.functional.cosine_similarity(logits, expected).mean()
    assert similarity > (0.99 if weights == "int8" else 0.9)
