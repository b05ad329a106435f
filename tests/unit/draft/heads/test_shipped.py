"""The head that is shipped is one for the embedded target, and guesses what that says."""

from __future__ import annotations

from pathlib import Path

import pytest

import draft_service
from common.model import loading, store
from common.model.batch import Segment
from common.model.tokenizer import Tokenizer
from common.types import Message
from draft_service.config import Config
from draft_service.heads import files, running
from draft_service.heads.running import RunningHead
from draft_service.session import Session
from draft_service.sources.eagle import EagleSource
from tests.unit.draft.sessions import opening

TARGET = "smollm2-135m-instruct"
HEAD = Path(draft_service.__file__).parent / "weights" / f"{TARGET}-eagle.safetensors"
TOKENS = 48
QUESTION = "Tom has 12 apples. He gives 5 to Ann and buys 8 more. How many apples does Tom have now?"
LIMIT_BYTES = 16 << 20


@pytest.fixture(scope="module")
def folder() -> str:
    return store.resolve(TARGET)


@pytest.fixture(scope="module")
def head(folder: str) -> RunningHead:
    return running.load(Config(source="eagle", model=TARGET, weights="float32"), folder, "eagle")


def test_it_is_small_and_of_the_targets_vocabulary(folder: str) -> None:
    assert HEAD.stat().st_size <= LIMIT_BYTES
    tokenizer = Tokenizer(store.load_tokenizer(folder), store.eos_token_ids(folder))
    assert files.load(HEAD).fingerprint == tokenizer.fingerprint


def test_half_of_its_first_guesses_are_the_targets_own_tokens(folder: str, head: RunningHead) -> None:
    tokenizer = Tokenizer(store.load_tokenizer(folder), store.eos_token_ids(folder))
    prompt = tokenizer.encode_conversation([Message("user", QUESTION)])
    layers = {"hidden_layers": head.shape.layers, "hidden_size": head.shape.hidden}
    session = Session.opened(opening(tokens=prompt, block_size=1, **layers))  # type: ignore[arg-type]
    assert session.states
    wanted = loading.Wanted(TARGET, 16, threads=2, device="cpu", hidden_layers=head.shape.layers)
    runner, source = loading.load(wanted).runner, EagleSource(head)
    guesses, start, right = None, 0, 0
    for _ in range(TOKENS):
        (output,) = runner.run([Segment(session.tokens[start:], start, range(16), logits=1, hidden=True)])
        assert output.hidden is not None
        session.states.put(start, output.hidden)
        start, token_id = len(session.tokens), int(output.logits[-1].argmax())
        right += guesses == (token_id,)
        session.tokens.append(token_id)
        (guess,) = source.propose([session])
        assert guess
        guesses = guess.token_ids
    assert right > TOKENS / 2
