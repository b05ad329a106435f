"""transformers.generate on the same prompts."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

import torch

from bench.measure import Run
from bench.prompts import Prompt
from common.model import store


def generate_all(prompts: Sequence[Prompt], max_tokens: int, precision: str) -> list[Run]:
    """Greedy, one prompt at a time, on every core, after one run to warm up."""
    torch.set_num_threads(os.cpu_count() or 1)
    folder = store.resolve(store.EMBEDDED)
    tokenizer = store.load_tokenizer(folder)
    model = store.load_model(folder, getattr(torch, precision), "cpu")
    model.set_attn_implementation("sdpa")
    return [_generate(model, tokenizer, prompt, max_tokens) for prompt in (prompts[0], *prompts)][1:]


def _generate(model: Any, tokenizer: Any, prompt: Prompt, max_tokens: int) -> Run:
    encoded = tokenizer.apply_chat_template(
        [{"role": "user", "content": prompt.text}],
        add_generation_prompt=True,
        return_dict=True,
        return_tensors="pt",
    )
    started = time.perf_counter()
    with torch.inference_mode():
        output = model.generate(**encoded, max_new_tokens=max_tokens, do_sample=False)
    seconds = time.perf_counter() - started
    answer = output[0, encoded["input_ids"].shape[1] :]
    return Run(prompt.group, len(answer), seconds, tokenizer.decode(answer, skip_special_tokens=True), {})
