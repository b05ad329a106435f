"""Weight formats are compared over the same tokens."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from bench import quality, texts
from bench.divergence import Divergence
from bench.texts import Text
from common.model.runner import ModelRunner
from tests.support.models import tiny_model

PROMPTS = [[5, 6, 7], [9, 8, 7, 6, 5, 4]]
NO_END: set[int] = set()


def runner(seed: int = 1) -> ModelRunner:
    return ModelRunner(tiny_model(seed), num_blocks=32)


def test_greedy_texts_are_the_models_own_answers() -> None:
    model = tiny_model(1, "sdpa")
    for prompt, text in zip(PROMPTS, texts.greedy(runner(), PROMPTS, 20, NO_END), strict=True):
        expected = model.generate(
            torch.tensor([prompt]), max_new_tokens=20, min_new_tokens=20, do_sample=False, pad_token_id=0
        )
        assert [*text.prompt, *text.answer] == expected[0].tolist()


def test_a_greedy_text_ends_with_the_first_end_token() -> None:
    (free,) = texts.greedy(runner(), PROMPTS[:1], 20, NO_END)
    end = free.answer[5]
    (ended,) = texts.greedy(runner(), PROMPTS[:1], 20, {end})
    assert ended.answer == free.answer[: free.answer.index(end) + 1]


@pytest.mark.parametrize("rows", [1, 3, 16])
def test_every_answer_token_is_compared_once_whatever_the_width_of_a_pass(rows: int) -> None:
    chosen = [Text([5] * 40, range(20)), Text([7], [3, 4])]
    found = quality.compare(runner(), {"same": runner(), "other": runner(2)}, chosen, rows)
    assert found["same"].positions == 22
    assert found["same"].agreement == 1.0
    assert found["same"].perplexity_ratio == pytest.approx(1.0)
    assert found["other"].mean_kl > 0.01
    assert found["other"].agreement < 1.0


def test_what_is_scored_is_what_the_model_says_of_each_next_token() -> None:
    text = Text([5, 6, 7], [8, 9, 10])
    found = quality.compare(runner(), {"same": runner()}, [text], rows=2)["same"]
    token_ids = torch.tensor([[*text.prompt, *text.answer]])
    logits = tiny_model(1, "sdpa")(token_ids).logits[0, 2:-1]
    expected = torch.nn.functional.cross_entropy(logits, token_ids[0, 3:], reduction="sum")
    assert found.reference_nats == pytest.approx(float(expected), rel=1e-4)


def test_texts_are_picked_evenly_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "texts.npz"
    np.savez(
        path,
        tokens=np.array([1, 2, 3, 4, 5, 6, 7, 8, 9], dtype=np.uint16),
        offsets=np.array([0, 3, 5, 9]),
        prompt_lengths=np.array([2, 1, 1]),
    )
    assert texts.load(path, 2) == [Text([1, 2], [3]), Text([6], [7, 8, 9])]
    assert len(texts.load(path, 10)) == 3


def test_the_table_has_a_row_for_every_format() -> None:
    table = quality.table({"int8": Divergence(200, 20.0, 22.0, 198, 0.5)})
    assert table.splitlines()[1].split() == ["int8", "1.1163", "1.0101", "99.00%", "0.002500", "200"]
