"""The target alone, through transformers: what every answer is compared with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from common import sampling
from common.model import store
from common.types import SamplingParams

NEAR_TIE = 1e-3


@dataclass(frozen=True)
class Answer:
    prompt: list[int]
    token_ids: list[int]
    text: str


class TargetAlone:
    """The embedded model in float32, as transformers runs it."""

    def __init__(self) -> None:
        folder = store.resolve(store.EMBEDDED)
        self._tokenizer = store.load_tokenizer(folder)
        self._model: Any = store.load_model(folder, torch.float32, "cpu")
        self._model.set_attn_implementation("sdpa")

    def encode(self, body: dict[str, Any]) -> list[int]:
        if "prompt" in body:
            return list(self._tokenizer(body["prompt"])["input_ids"])
        encoded = self._tokenizer.apply_chat_template(
            body["messages"], add_generation_prompt=True, return_dict=True
        )
        return list(encoded["input_ids"])

    def greedy(self, body: dict[str, Any], max_tokens: int) -> Answer:
        prompt = self.encode(body)
        with torch.inference_mode():
            output = self._model.generate(
                torch.tensor([prompt]),
                attention_mask=torch.ones(1, len(prompt), dtype=torch.int64),
                max_new_tokens=max_tokens,
                do_sample=False,
            )
        return self._answer(prompt, output[0, len(prompt) :].tolist())

    def keyed(self, body: dict[str, Any], params: SamplingParams, max_tokens: int) -> Answer:
        """argmax over tokens of log p + Gumbel(seed, position, token), one token at a time."""
        assert params.seed is not None
        prompt = self.encode(body)
        tokens, cache, fresh = list(prompt), None, prompt
        while len(tokens) < len(prompt) + max_tokens:
            with torch.inference_mode():
                output = self._model(torch.tensor([fresh]), cache=cache, use_cache=True)
            cache = output.cache
            adjusted = sampling.adjust(output.logits[0, -1:], params, tokens, len(prompt), [[]])
            probs = sampling.probabilities(adjusted, params)[0]
            fresh = [sampling.choose(probs, params.seed & (2**64 - 1), len(tokens))]
            tokens += fresh
            if fresh[0] == self._tokenizer.eos_token_id:
                break
        return self._answer(prompt, tokens[len(prompt) :])

    def excuse(self, answer: Answer, other: str) -> str | None:
        """The near-tie of the top two logits where ``other`` first differs; None: there is none."""
        logits = self._all_logits(answer)
        for index in range(len(answer.token_ids)):
            said = self._decode(answer.token_ids[: index + 1])
            if not other.startswith(said.rstrip("�")):
                top = logits[index].topk(2).values
                gap = float(top[0] - top[1])
                return f"near-tie of {gap:.1e} at token {index}" if gap < NEAR_TIE else None
        return None

    def _all_logits(self, answer: Answer) -> Tensor:
        with torch.inference_mode():
            tokens = torch.tensor([answer.prompt + answer.token_ids])
            logits: Tensor = self._model(tokens).logits[0, len(answer.prompt) - 1 : -1]
        return logits

    def _answer(self, prompt: list[int], token_ids: list[int]) -> Answer:
        return Answer(prompt, token_ids, self._decode(token_ids))

    def _decode(self, token_ids: list[int]) -> str:
        return str(self._tokenizer.decode(token_ids, skip_special_tokens=True))
