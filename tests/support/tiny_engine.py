"""The verify engine over a tiny model and its real runner."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from common.model.block_manager import BlockManager
from common.model.runner import ModelRunner, model_thread
from common.model.tokenizer import Tokenizer
from tests.support.models import tiny_tokenizer
from verify_service.admission import Admission
from verify_service.drafts.ahead import AheadPolicy
from verify_service.drafts.hub import DraftHub
from verify_service.drafts.limits import Hidden, Limits
from verify_service.drafts.link import DraftLink, Link
from verify_service.engine import Engine
from verify_service.scheduler import Scheduler
from verify_service.tags import TagReader

NUM_BLOCKS = 64


def tiny_engine(
    model: Any,
    make_link: Callable[[str], Link] = DraftLink,
    *,
    num_blocks: int = NUM_BLOCKS,
    max_batch_tokens: int = 128,
    wait_seconds: float = 5.0,
    hidden_layers: tuple[int, ...] = (),
    ahead: AheadPolicy | None = None,
    limits: Limits = Limits(),
) -> tuple[Engine, DraftHub]:
    """Answers end at their ``max_tokens`` alone. The hub is to be shut down."""
    tokenizer, vocabulary = Tokenizer(tiny_tokenizer()), int(model.config.vocab_size)
    admission = Admission(
        tokenizer=tokenizer,
        model_name="tiny",
        system_fingerprint="tiny",
        vocabulary_size=vocabulary,
        context_length=min(model.config.max_position_embeddings, num_blocks * 16 - 16),
        eos_token_ids=frozenset(),
        block_size=8,
        max_block_size=16,
        fact_checks=False,
    )
    hidden = Hidden(hidden_layers, int(model.config.hidden_size) if hidden_layers else 0)
    hub = DraftHub(
        tokenizer.fingerprint, vocabulary, wait_seconds, make_link, hidden=hidden, ahead=ahead, limits=limits
    )
    engine = Engine(
        admission,
        Scheduler(BlockManager(num_blocks), 16, 64, max_batch_tokens),
        ModelRunner(model, num_blocks, hidden_layers),
        model_thread(),
        drafts=hub,
        tags=TagReader(""),
    )
    return engine, hub
