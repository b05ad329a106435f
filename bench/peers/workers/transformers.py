"""transformers.generate: ``python -m bench.peers.workers.transformers FOLDER plain|lookup``, in bfloat16."""

from __future__ import annotations

import itertools
import os
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from bench.peers.workers import lines

_GUESSES = 5


class Generate:
    def __init__(self, folder: str, lookup: bool) -> None:
        torch.set_num_threads(os.cpu_count() or 1)
        self._tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
        self._model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).eval()
        self._options = {"prompt_lookup_num_tokens": _GUESSES} if lookup else {}

    def answer(self, prompts: list[str], streams: int, max_tokens: int) -> int:
        """In batches that each take as long as the longest answer: nothing joins one midway."""
        firsts = range(0, len(prompts), streams)
        return sum(self._batch(prompts[first : first + streams], max_tokens) for first in firsts)

    def prefill(self, token_ids: list[int]) -> None:
        self._generate(input_ids=torch.tensor([token_ids]), max_tokens=1)

    def _batch(self, prompts: list[str], max_tokens: int) -> int:
        encoded = self._tokenizer.apply_chat_template(
            [[{"role": "user", "content": prompt}] for prompt in prompts],
            add_generation_prompt=True,
            padding=True,
            return_dict=True,
            return_tensors="pt",
        )
        output = self._generate(**encoded, max_tokens=max_tokens)
        return sum(self._length(row) for row in output[:, encoded["input_ids"].shape[1] :].tolist())

    def _length(self, answer: list[int]) -> int:
        """Up to and with the end of sequence; padding follows."""
        end = self._tokenizer.eos_token_id
        before = sum(1 for _ in itertools.takewhile(lambda token_id: token_id != end, answer))
        return min(before + 1, len(answer))

    @torch.inference_mode()
    def _generate(self, max_tokens: int, **inputs: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = self._model.generate(
            **inputs, max_new_tokens=max_tokens, do_sample=False, **self._options
        )
        return output


if __name__ == "__main__":
    model, mode = sys.argv[1:]
    lines.serve(lambda: Generate(model, lookup=mode == "lookup"))
