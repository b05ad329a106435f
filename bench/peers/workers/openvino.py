"""OpenVINO GenAI: ``python -m bench.peers.workers.openvino FOLDER MOST_STREAMS plain|lookup``."""

from __future__ import annotations

import sys
from typing import Any

import numpy
import openvino
import openvino_genai

from bench.peers.workers import lines

_CACHE_GIGABYTES = 1
_GUESSES = 5
_NGRAM = 3


class Pipeline:
    """Continuous batching; nothing is kept from one request for the next."""

    def __init__(self, folder: str, most_streams: int, lookup: bool) -> None:
        scheduler = openvino_genai.SchedulerConfig()
        scheduler.cache_size = _CACHE_GIGABYTES
        scheduler.max_num_seqs = most_streams
        scheduler.enable_prefix_caching = False
        options = {"prompt_lookup": True} if lookup else {}
        self._pipeline = openvino_genai.LLMPipeline(folder, "CPU", scheduler_config=scheduler, **options)
        self._most_streams = most_streams
        self._lookup = lookup

    def answer(self, prompts: list[str], streams: int, max_tokens: int) -> int:
        """The scheduler runs ``most_streams`` of them at a time; the pipeline applies the chat template."""
        assert len(prompts) == 1 or streams == self._most_streams
        result = self._pipeline.generate(prompts, self._greedy(max_tokens))
        return int(result.perf_metrics.get_num_generated_tokens())

    def prefill(self, token_ids: list[int]) -> None:
        row = openvino.Tensor(numpy.array([token_ids], dtype=numpy.int64))
        self._pipeline.generate(row, self._greedy(1))

    def _greedy(self, max_tokens: int) -> Any:
        chosen = self._pipeline.get_generation_config()
        chosen.do_sample = False
        chosen.max_new_tokens = max_tokens
        if self._lookup:
            chosen.num_assistant_tokens = _GUESSES
            chosen.max_ngram_size = _NGRAM
        return chosen


if __name__ == "__main__":
    model, most, mode = sys.argv[1:]
    lines.serve(lambda: Pipeline(model, int(most), lookup=mode == "lookup"))
