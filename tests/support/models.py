"""Tiny random models and their tokenizer: every code path of a real one, in milliseconds."""

from __future__ import annotations

import itertools
import string
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor
from transformers import AutoModelForCausalLM, LlamaConfig, PreTrainedTokenizerFast

from common.model.attention import IMPLEMENTATION

UNK, EOS = 0, 1
CONTEXT_LENGTH = 512
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)

_SHARPNESS = 3.0
_CHARACTERS = (
    string.ascii_lowercase
    + " \n"
    + string.digits
    + ".,:;!?'-()"
    + "_/+=*<>#%&"
    + "éß✓€"
    + string.ascii_uppercase
    + '{}[]"'
)


def tiny_config(vocabulary: int = 64, layers: int = 2, **changes: Any) -> LlamaConfig:
    """``changes`` are fields of ``LlamaConfig``."""
    fields: dict[str, Any] = {
        "vocab_size": vocabulary,
        "num_hidden_layers": layers,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": CONTEXT_LENGTH,
        "initializer_range": 0.2,
        "bos_token_id": None,
        "eos_token_id": EOS,
        "pad_token_id": None,
        "tie_word_embeddings": False,
    }
    return LlamaConfig(**(fields | changes))


def tiny_model(seed: int, attention: str = IMPLEMENTATION, config: Any = None, **changes: Any) -> Any:
    """A causal LM in float32, the same weights for the same seed and config, whose choices are not flat.

    Args:
        attention: that of our runner, ``eager`` or ``sdpa`` to call it as transformers does.
        config: of any architecture; without one ``tiny_config(**changes)``.
    """
    config = config or tiny_config(**changes)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation=attention)
    with torch.no_grad():
        model.get_output_embeddings().weight.mul_(_SHARPNESS)
    return model.eval().requires_grad_(False)


def livened(model: Any, seed: int) -> Any:
    """The same model with norms that are not 1 and biases that are not 0."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    return model


def tiny_tokenizer(vocabulary: int = 64) -> PreTrainedTokenizerFast:
    """One token per character, after ``<unk>`` and ``<eos>``: what it encodes it decodes to the same text."""
    characters = itertools.chain(_CHARACTERS, (chr(code) for code in itertools.count(0x3B1)))
    tokens = ["<unk>", "<eos>", *itertools.islice(characters, vocabulary - 2)]
    tokenizer = Tokenizer(
        models.WordLevel({token: token_id for token_id, token in enumerate(tokens)}, unk_token="<unk>")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="<unk>", eos_token="<eos>", chat_template=CHAT_TEMPLATE
    )


def save_tiny(folder: Path, seed: int = 0, **changes: Any) -> str:
    """Safetensors, config and tokenizer in ``folder``, as the services load a model; its name for them."""
    model = tiny_model(seed, attention="sdpa", **changes)
    model.save_pretrained(folder)
    tiny_tokenizer(model.config.vocab_size).save_pretrained(folder)
    return str(folder)


def reference_logits(model: Any, tokens: Sequence[int], attention: str = "sdpa") -> Tensor:
    """[tokens, vocabulary]: transformers' own forward pass over one whole sequence, without a cache."""
    with torch.inference_mode(), _attention(model, attention):
        logits: Tensor = model(input_ids=torch.tensor([list(tokens)]), use_cache=False).logits[0]
    return logits


def reference_greedy(model: Any, tokens: Sequence[int], count: int, attention: str = "sdpa") -> list[int]:
    """The next ``count`` tokens, each from a pass over the whole sequence; past an end of sequence too."""
    grown = list(tokens)
    for _ in range(count):
        grown.append(int(reference_logits(model, grown, attention)[-1].argmax()))
    return grown[len(tokens) :]


@contextmanager
def _attention(model: Any, implementation: str) -> Iterator[None]:
    """Run a model on another attention, whichever it was made for."""
    before = model.config._attn_implementation
    model.set_attn_implementation(implementation)
    try:
        yield
    finally:
        model.set_attn_implementation(before)
