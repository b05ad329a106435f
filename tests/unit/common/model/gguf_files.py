"""A tiny GGUF file, to have something to convert."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np

HIDDEN = 16
VOCABULARY = 32


def write(path: Path, seed: int) -> Path:
    """A Llama of one layer with random weights; files of any seed have the same size."""
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(1)
    writer.add_context_length(64)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(2 * HIDDEN)
    writer.add_head_count(2)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(HIDDEN // 2)
    writer.add_vocab_size(VOCABULARY)
    _add_tokenizer(writer)
    _add_tensors(writer, np.random.default_rng(seed))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add_tokenizer(writer: gguf.GGUFWriter) -> None:
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(["<s>", "</s>", "AB", *(chr(ord("A") + i) for i in range(VOCABULARY - 3))])
    writer.add_token_types([3, 3, *[1] * (VOCABULARY - 2)])
    writer.add_token_merges(["A B"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)


def _add_tensors(writer: gguf.GGUFWriter, chance: np.random.Generator) -> None:
    shapes = {
        "token_embd": (VOCABULARY, HIDDEN),
        "output": (VOCABULARY, HIDDEN),
        "output_norm": (HIDDEN,),
        "blk.0.attn_norm": (HIDDEN,),
        "blk.0.ffn_norm": (HIDDEN,),
        **{f"blk.0.attn_{name}": (HIDDEN, HIDDEN) for name in ("q", "k", "v", "output")},
        "blk.0.ffn_gate": (2 * HIDDEN, HIDDEN),
        "blk.0.ffn_up": (2 * HIDDEN, HIDDEN),
        "blk.0.ffn_down": (HIDDEN, 2 * HIDDEN),
    }
    for name, shape in shapes.items():
        writer.add_tensor(f"{name}.weight", chance.standard_normal(shape, dtype=np.float32))
