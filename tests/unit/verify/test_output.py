"""Text never leaves in halves of characters, nor with a part of a stop string."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.types import FinishReason, Stopping
from verify_service.output import Detokenizer, Output, StopStrings

REPLACEMENT = "�"
TEXTS = st.text(
    st.sampled_from("ab é漢字😀🏳️‍🌈")
    | st.characters(exclude_categories=["Cs"], exclude_characters=REPLACEMENT),
    max_size=30,
)


class Pieces:
    """Token i is the i-th piece of bytes."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._pieces = pieces

    def decode(self, token_ids: Sequence[int]) -> str:
        return b"".join(self._pieces[token_id] for token_id in token_ids).decode(errors="replace")


@st.composite
def splits(draw: st.DrawFn, *, across_characters: bool) -> tuple[str, list[bytes]]:
    """A text and its bytes in pieces of 1 to 6; a piece that ends inside a character began there, or not."""
    text = draw(TEXTS)
    pieces: list[bytes] = []
    for part in [text] if across_characters else list(text):
        rest = part.encode()
        while rest:
            size = draw(st.integers(1, 6))
            pieces.append(rest[:size])
            rest = rest[size:]
    return text, pieces


def assert_streams(text: str, pieces: Sequence[bytes], prompt: Sequence[bytes] = ()) -> None:
    """Every piece's output continues the text, without a stray replacement character."""
    detokenizer = Detokenizer(Pieces([*prompt, *pieces]), range(len(prompt)))
    sent = ""
    for token_id in range(len(prompt), len(prompt) + len(pieces)):
        sent += detokenizer.push(token_id)
        assert text.startswith(sent)
    assert sent + detokenizer.flush() == text


@given(splits(across_characters=False), splits(across_characters=False))
def test_characters_split_over_tokens_come_out_whole(
    answer: tuple[str, list[bytes]], prompt: tuple[str, list[bytes]]
) -> None:
    assert_streams(*answer, prompt[1])


@given(splits(across_characters=True), splits(across_characters=True))
def test_characters_come_out_whole_even_when_tokens_hold_the_end_of_one_and_the_start_of_the_next(
    answer: tuple[str, list[bytes]], prompt: tuple[str, list[bytes]]
) -> None:
    assert_streams(*answer, prompt[1])


def test_ten_tokens_in_a_row_that_end_inside_a_character_send_no_half_of_one() -> None:
    text = "é" * 12
    encoded = text.encode()
    pieces = [encoded[:1], *(encoded[at : at + 2] for at in range(1, len(encoded) - 1, 2)), encoded[-1:]]
    assert_streams(text, pieces)


@given(splits(across_characters=False), st.integers(0, 40))
def test_flush_sends_what_is_left_and_a_second_flush_nothing(
    answer: tuple[str, list[bytes]], count: int
) -> None:
    _, pieces = answer
    taken = pieces[:count]
    detokenizer = Detokenizer(Pieces(pieces), ())
    sent = "".join(detokenizer.push(token_id) for token_id in range(len(taken)))
    assert sent + detokenizer.flush() == b"".join(taken).decode(errors="replace")
    assert detokenizer.flush() == ""


@given(st.lists(st.binary(min_size=1, max_size=4), min_size=1, max_size=60))
def test_bytes_that_are_no_text_never_hold_the_stream_back_for_more_than_a_few_tokens(
    pieces: list[bytes],
) -> None:
    detokenizer = Detokenizer(Pieces(pieces), ())
    silent = 0
    for token_id in range(len(pieces)):
        silent = 0 if detokenizer.push(token_id) else silent + 1
        assert silent < 8


def test_a_tokens_text_may_depend_on_the_one_before_it() -> None:
    class Spaced:
        """As a sentencepiece decoder: the first token loses its leading space."""

        def decode(self, token_ids: Sequence[int]) -> str:
            return "".join(f" w{token_id}" for token_id in token_ids)[1:]

    detokenizer = Detokenizer(Spaced(), [1, 2])
    assert [detokenizer.push(3), detokenizer.push(4)] == [" w3", " w4"]
    assert Detokenizer(Spaced(), []).push(3) == "w3"


STOPS = st.lists(st.text("ab", min_size=1, max_size=4), max_size=3)
CHUNKS = st.lists(st.text("ab", max_size=4), max_size=12)


@given(STOPS, CHUNKS)
def test_stop_strings_release_what_a_search_of_the_whole_text_would(
    stops: list[str], chunks: list[str]
) -> None:
    stop_strings = StopStrings(stops)
    text, released = "", ""
    for chunk in chunks:
        text += chunk
        out, stopped = stop_strings.push(chunk)
        released += out
        starts = [at for at in (text.find(stop) for stop in stops) if at >= 0]
        assert stopped == bool(starts)
        if stopped:
            assert released == text[: min(starts)]
            return
        tails = (text[at:] for at in range(len(text)))
        held = next((tail for tail in tails if any(stop.startswith(tail) for stop in stops)), "")
        assert released + held == text
    assert released + stop_strings.flush() == text


@given(STOPS.filter(bool), st.text("ab", max_size=20), st.data())
def test_one_stop_string_cuts_at_the_same_place_however_the_text_is_split(
    stops: list[str], text: str, data: st.DataObject
) -> None:
    def deliver(chunks: Sequence[str]) -> str:
        stop_strings, sent = StopStrings(stops[:1]), ""
        for chunk in chunks:
            out, stopped = stop_strings.push(chunk)
            sent += out
            if stopped:
                return sent
        return sent + stop_strings.flush()

    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)))))
    chunks = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert deliver(chunks) == deliver([text]) == text.split(stops[0], maxsplit=1)[0]


@pytest.mark.parametrize("ignore_eos", [False, True])
def test_a_stop_token_ends_the_answer_even_when_the_end_of_sequence_is_ignored(ignore_eos: bool) -> None:
    stopping = Stopping(stop_token_ids=frozenset({1}), ignore_eos=ignore_eos)
    output = Output(Pieces([b"", b"x", b"y"]), [], stopping, {0}, max_tokens=9)
    assert output.push(2) is None
    assert output.push(0) is (None if ignore_eos else FinishReason.STOP)
    if ignore_eos:
        assert output.push(1) is FinishReason.STOP
    assert output.take_text() == "y"
    assert output.take_text() == ""


def test_a_stop_string_that_only_the_flush_completes_still_stops() -> None:
    output = Output(Pieces([b"a", b"\xc3"]), [], Stopping(stop=(f"a{REPLACEMENT}",)), set(), max_tokens=2)
    assert output.push(0) is None
    assert output.push(1) is FinishReason.STOP
    assert output.take_text() == ""
