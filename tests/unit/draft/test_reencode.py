"""Drafts in another vocabulary: what they guess arrives as the target's tokens."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from common.allowed import Allowed
from common.model.tokenizer import Tokenizer
from common.types import Mode, SamplingParams
from draft_service import metrics
from draft_service.session import Session
from draft_service.sources.base import NOTHING, Guess
from draft_service.sources.paged import PagedSource
from draft_service.sources.reencode import ReencodingSource
from tests.support.models import tiny_tokenizer
from tests.unit.draft.paged import PagedRunner
from tests.unit.draft.sessions import commitment, opened


def byte_pairs(*merges: str, eos: str = "<end>") -> Tokenizer:
    """Bytes as GPT-2 writes them, and ``merges`` of them: "a b", with a space as Ġ."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokens = [*alphabet, *(merge.replace(" ", "") for merge in merges), eos]
    pairs = [(left, right) for left, right in (merge.split(" ") for merge in merges)]
    backend = Backend(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=pairs))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    return Tokenizer(PreTrainedTokenizerFast(tokenizer_object=backend, eos_token=eos))


OURS = byte_pairs("t h", "th e", "a t", "Ġ c", "c at")
THEIRS = byte_pairs("h e", "Ġ t", "Ġt he", "a t", "u n", "d o", "un do", eos="<eos>")


class Writer:
    """Goes on as the text it is told, in the tokens of ``OURS``; remembers what it was asked about."""

    name = "model"
    model_version = "1"

    def __init__(self, text: str, tokenizer: Tokenizer = OURS) -> None:
        self.guesses = tokenizer.encode_plain(text)
        self.seen: list[list[int]] = []
        self.sessions: list[Session] = []
        self.closed: list[str] = []

    def propose(self, sessions: Sequence[Session]) -> list[Guess | None]:
        self.sessions = list(sessions)
        self.seen += [list(session.tokens) for session in sessions]
        count = len(self.guesses)
        beliefs = tuple(1 / (2 + i) for i in range(count))
        return [
            Guess(tuple(self.guesses[: s.block_size]), confidences=beliefs[: s.block_size]) for s in sessions
        ]

    def close(self, session_id: str) -> None:
        self.closed.append(session_id)


def asked(text: str, block_size: int = 4) -> Session:
    return opened(tokens=THEIRS.encode_plain(text), block_size=block_size)


def guess(source: ReencodingSource, session: Session) -> Guess:
    (made,) = source.propose([session])
    assert made is not None
    return made


@pytest.mark.parametrize(
    ("text", "continuation"),
    [("see", " the cat"), ("see the", " cat"), ("x", "é the"), ("the cat", ", the cat"), ("a b", "\n\n")],
)
def test_guesses_are_the_targets_own_tokens_for_the_text_that_was_guessed(
    text: str, continuation: str
) -> None:
    writer = Writer(continuation)
    made = guess(ReencodingSource(writer, OURS, THEIRS), asked(text, block_size=20))
    whole = THEIRS.encode_plain(text + continuation)
    assert list(made.token_ids) == whole[len(THEIRS.encode_plain(text)) :]
    assert writer.seen == [OURS.encode_plain(text)]
    assert made.distributions == ()


def test_text_that_the_target_began_in_an_unusual_way_goes_on_token_by_token() -> None:
    """It said "u", where its tokenizer would have said "undo"."""
    session = opened(tokens=THEIRS.encode_plain("u"), block_size=8)
    made = guess(ReencodingSource(Writer("ndo"), OURS, THEIRS), session)
    assert [THEIRS.token_bytes(token_id) for token_id in made.token_ids] == [b"n", b"do"]


def test_no_more_guesses_than_wanted_and_each_with_the_belief_of_the_guess_it_ends_in() -> None:
    made = guess(ReencodingSource(Writer(" the cat"), OURS, THEIRS), asked("see", block_size=3))
    assert [THEIRS.token_bytes(token_id) for token_id in made.token_ids] == [b" the", b" ", b"c"]
    assert made.confidences == (1 / 3, 1 / 4, 1 / 4)
    assert (
        len(guess(ReencodingSource(Writer("abcdef"), OURS, THEIRS), asked("x", block_size=2)).token_ids) == 2
    )


def test_a_character_that_is_not_whole_yet_is_completed() -> None:
    first, *rest = "é".encode()
    (held,) = [i for i in range(256) if THEIRS.token_bytes(i) == bytes([first])]
    writer = Writer("é!")
    made = guess(ReencodingSource(writer, OURS, THEIRS), opened(tokens=[*THEIRS.encode_plain("a"), held]))
    assert b"".join(map(THEIRS.token_bytes, made.token_ids)) == bytes(rest) + b"!"
    assert writer.seen == [OURS.encode_plain("a")]


def test_half_a_guessed_character_is_left_out() -> None:
    writer = Writer("é")
    made = guess(ReencodingSource(writer, OURS, THEIRS), asked("a", block_size=1))
    assert made.token_ids == ()


def test_guesses_end_where_the_draft_ends_its_answer() -> None:
    writer = Writer("the")
    writer.guesses.insert(1, min(OURS.eos_token_ids))
    writer.guesses += OURS.encode_plain("cat")
    made = guess(ReencodingSource(writer, OURS, THEIRS), asked("a", block_size=8))
    assert b"".join(map(THEIRS.token_bytes, made.token_ids)) == b"the"


def test_special_tokens_cross_only_where_both_know_them() -> None:
    writer = Writer("x")
    tokens = [*THEIRS.encode_plain("ab"), min(THEIRS.eos_token_ids), *THEIRS.encode_plain("c")]
    guess(ReencodingSource(writer, OURS, THEIRS), opened(tokens=tokens))
    assert writer.seen == [OURS.encode_plain("abc")]
    same = byte_pairs("t h", eos="<eos>")
    writer = Writer("x", same)
    guess(ReencodingSource(writer, same, THEIRS), opened(tokens=tokens))
    assert writer.seen == [same.encode_plain("ab<eos>c")]
    assert min(same.eos_token_ids) in writer.seen[0]


def test_the_draft_is_asked_for_its_likeliest_continuation_whatever_the_session_samples() -> None:
    writer = Writer("x")
    session = opened(
        tokens=THEIRS.encode_plain("a"),
        sampling=SamplingParams(temperature=1.5, logit_bias={3: 9.0}),
        mode=Mode.REJECTION,
        tree_width=4,
    )
    guess(ReencodingSource(writer, OURS, THEIRS), session)
    (inner,) = writer.sessions
    assert (inner.sampling, inner.tree_width) == (SamplingParams(temperature=0), 1)


def test_what_is_forbidden_ends_the_guesses() -> None:
    session = asked("a", block_size=8)
    session.allowed = Allowed(300, {THEIRS.encode_plain("z")[0]: 99})
    made = guess(ReencodingSource(Writer("xyz"), OURS, THEIRS), session)
    assert b"".join(map(THEIRS.token_bytes, made.token_ids)) == b"xy"


def test_a_text_that_the_drafts_tokenizer_cannot_spell_gets_no_guesses_and_is_counted_once() -> None:
    letters = Tokenizer(tiny_tokenizer(28))
    before = metrics.UNREPRODUCIBLE._value.get()
    source = ReencodingSource(Writer("abc", letters), letters, THEIRS)
    foreign, plain = opened("f", THEIRS.encode_plain("a?b")), opened("p", THEIRS.encode_plain("ab"))
    first, second = source.propose([foreign, plain])
    assert first == NOTHING
    assert second
    assert second.token_ids
    assert source.propose([foreign]) == [NOTHING]
    assert metrics.UNREPRODUCIBLE._value.get() == before + 1
    source.close("f")
    assert guess(source, opened("f", THEIRS.encode_plain("ab"))).token_ids


@settings(max_examples=60)
@given(st.lists(st.text(alphabet="the catundo,é😀\n", min_size=1), min_size=1))
def test_a_text_that_grows_is_read_by_the_draft_as_the_whole_would_be(pieces: list[str]) -> None:
    writer = Writer("x")
    source, session = ReencodingSource(writer, OURS, THEIRS), asked(pieces[0] * 6)
    guess(source, session)
    for piece in pieces[1:]:
        session.commit(commitment(base_length=len(session.tokens), tokens=THEIRS.encode_plain(piece)))
        guess(source, session)
    text = b"".join(map(THEIRS.token_bytes, session.tokens)).decode()
    assert writer.seen[-1] == OURS.encode_plain(text)


@settings(max_examples=25)
@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from(["t", "he", " ", "é", "the cat"])), max_size=4))
def test_after_any_acceptance_the_guesses_are_those_of_a_fresh_session(
    commits: list[tuple[int, str]],
) -> None:
    """The KV of what came to be spelled otherwise is rolled back."""

    def source() -> ReencodingSource:
        return ReencodingSource(PagedSource("model", PagedRunner(64), 64, 64, "v"), OURS, THEIRS)

    ours, session = source(), asked("the cat and th")
    for accepted, text in commits:
        made = guess(ours, session)
        session.remember(1, made.token_ids)
        session.commit(
            commitment(
                base_length=len(session.tokens),
                block_id=1,
                accepted=min(accepted, len(made.token_ids)),
                tokens=THEIRS.encode_plain(text),
            )
        )
    assert guess(ours, session) == guess(source(), opened("fresh", session.tokens))
