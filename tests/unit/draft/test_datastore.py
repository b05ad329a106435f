"""The files of a datastore, how they are searched, and what they are made of."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.errors import ConfigError
from common.model.tokenizer import fingerprint
from draft_service import datastore as command
from draft_service.sources import datastore
from draft_service.sources.datastore import LONGEST, SHORTEST, Datastore, load, save, sort_suffixes
from tests.support.models import save_tiny, tiny_tokenizer

END = 2**32 - 1
tokens = st.lists(st.integers(0, 2), max_size=40)
documents = st.lists(tokens, min_size=1, max_size=5)


def in_memory(written: Sequence[Sequence[int]]) -> Datastore:
    joined = np.array([token for document in written for token in (*document, END)], np.uint32)
    return Datastore(joined.astype(">u4"), sort_suffixes(joined).astype("<u4"))


def searched(written: Sequence[Sequence[int]], text: Sequence[int]) -> tuple[int, list[list[int]]]:
    """The length of the longest tail that occurs, and what follows each of its occurrences."""
    for length in range(min(LONGEST, len(text)), SHORTEST - 1, -1):
        tail = list(text[-length:])
        after = [
            list(document[at + length :])
            for document in written
            for at in range(len(document) - length + 1)
            if list(document[at : at + length]) == tail
        ]
        if after:
            return length, sorted(rest for rest in after if rest)
    return 0, []


@given(st.lists(st.integers(0, 3) | st.just(END), min_size=1, max_size=60))
def test_suffixes_are_in_the_order_of_their_first_tokens(text: list[int]) -> None:
    order = sort_suffixes(np.array(text, np.uint32)).tolist()
    assert order == sorted(range(len(text)), key=lambda place: (text[place : place + LONGEST], place))


@given(documents, tokens)
def test_it_finds_what_a_search_of_the_documents_finds(written: list[list[int]], text: list[int]) -> None:
    made = in_memory(written)
    found = list(made.find(text, 1000))
    length, after = searched(written, text)
    assert sorted(made.after(place, 1000) for place, _ in found) == after
    assert all(matched == length for _, matched in found)


def test_of_too_many_occurrences_each_continuation_is_found_in_proportion() -> None:
    made = in_memory([*([1, 2, 3],) * 300, *([1, 2, 4],) * 100])
    found = [made.after(place, 1) for place, _ in made.find([1, 2], 40)]
    assert (found.count([3]), found.count([4])) == (30, 10)


def test_a_continuation_is_as_long_as_asked_and_ends_with_its_document() -> None:
    made = in_memory([[1, 2, 3, 4, 5], [6]])
    assert (made.after(2, 2), made.after(2, 9)) == ([3, 4], [3, 4, 5])


def test_what_was_saved_is_found_again(tmp_path: Path) -> None:
    written = [list(range(20)), [7, 8, 9, 10]]
    made = save(tmp_path / "made" / "here", written, "ours")
    assert (made.documents, made.tokens) == (2, 26)
    loaded = load(tmp_path / "made" / "here", "ours")
    assert sorted(loaded.after(place, 3) for place, _ in loaded.find([7, 8], 9)) == [[9, 10], [9, 10, 11]]
    assert [path.name for path in (tmp_path / "made").iterdir()] == ["here"]


def test_a_folder_that_exists_is_left_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="exists already"):
        save(tmp_path, [list(range(20))], "ours")


def test_documents_without_text_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="tokens"):
        save(tmp_path / "made", [], "ours")


def damaged(folder: Path, how: str) -> None:
    match how:
        case "manifest":
            (folder / "datastore.json").write_text("{}")
        case "format":
            manifest = json.loads((folder / "datastore.json").read_text())
            (folder / "datastore.json").write_text(json.dumps(manifest | {"format": 9}))
        case "tokens":
            (folder / "tokens.npy").unlink()
        case "suffixes":
            np.save(folder / "suffixes.npy", np.zeros(3, "<u4"))
        case "pickle":
            np.save(folder / "suffixes.npy", np.array([object()]), allow_pickle=True)


@pytest.mark.parametrize("how", ["manifest", "format", "tokens", "suffixes", "pickle"])
def test_a_damaged_datastore_is_refused(tmp_path: Path, how: str) -> None:
    folder = tmp_path / "made"
    save(folder, [list(range(20))], "ours")
    damaged(folder, how)
    with pytest.raises(ConfigError, match="made is") as caught:
        load(folder, "ours")
    assert caught.value.field == datastore.VARIABLE


def test_a_datastore_of_another_tokenizer_is_refused_and_both_are_named(tmp_path: Path) -> None:
    save(tmp_path / "made", [list(range(20))], "theirs")
    with pytest.raises(ConfigError, match=r"TANDEM_DRAFT_DATASTORE.*theirs.*ours"):
        load(tmp_path / "made", "ours")


@pytest.fixture
def model(tmp_path: Path) -> str:
    return save_tiny(tmp_path / "model")


def test_the_command_makes_a_datastore_of_every_kind_of_document(tmp_path: Path, model: str) -> None:
    folder = tmp_path / "documents"
    (folder / "deeper").mkdir(parents=True)
    (folder / "a.txt").write_text("one plain text")
    (folder / "deeper" / "b.md").write_text("marked down")
    (folder / "ignored.csv").write_text("1,2")
    lines = tmp_path / "lines.jsonl"
    lines.write_text('{"text": "a record"}\n\n{"turns": ["first turn", "second turn"]}\n')
    command.main([str(folder), str(lines), "--out", str(tmp_path / "made"), "--model", model])
    tokenizer = tiny_tokenizer()
    made = load(tmp_path / "made", fingerprint(tokenizer))
    for start, rest in (("one pl", "ain text"), ("mark", "ed down"), ("a re", "cord"), ("second", " turn")):
        ((place, _),) = made.find(tokenizer(start)["input_ids"], 9)
        assert tokenizer.decode(made.after(place, 99)) == rest


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("a.csv", "1,2", "a.csv is none of"),
        ("a.jsonl", '{"text": "fine"}\n{', "a.jsonl, line 2"),
        ("a.jsonl", '{"title": "no text"}', "line 1: neither text nor turns"),
        ("a.jsonl", "[1]", "line 1: neither text nor turns"),
        ("a.jsonl", '{"turns": [1]}', "line 1: neither text nor turns"),
        ("a.txt", None, "a.txt"),
    ],
)
def test_a_document_that_is_none_is_refused_by_its_name(
    tmp_path: Path, model: str, name: str, content: str | None, complaint: str
) -> None:
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(SystemExit, match=complaint):
        command.main([str(tmp_path / name), "--out", str(tmp_path / "made"), "--model", model])
    assert not (tmp_path / "made").exists()
