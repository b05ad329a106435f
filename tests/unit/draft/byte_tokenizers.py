"""Two tokenizers that split characters into bytes, as the two great families of models do."""

from __future__ import annotations

from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from common.model.tokenizer import Tokenizer


def byte_level() -> Tokenizer:
    """One token per byte, written as GPT-2 writes them; half a character decodes to one U+FFFD."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Backend(models.BPE(vocab={token: i for i, token in enumerate(alphabet)}, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    return Tokenizer(PreTrainedTokenizerFast(tokenizer_object=backend))


def byte_fallback() -> Tokenizer:
    """Letters are tokens, other characters fall back to bytes as in SentencePiece models, each of which
    decodes to a U+FFFD until the character is whole."""
    tokens = [*(f"<0x{byte:02X}>" for byte in range(256)), "<unk>", *"abcdefghijklmnopqrstuvwxyz"]
    vocabulary = {token: i for i, token in enumerate(tokens)}
    backend = Backend(models.BPE(vocab=vocabulary, merges=[], unk_token="<unk>", byte_fallback=True))
    backend.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    return Tokenizer(PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<unk>"))
