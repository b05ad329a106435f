from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from common.errors import ConfigError
from fact_check_service.checks.base import Context
from fact_check_service.checks.knowledge import KnowledgeCheck, make
from fact_check_service.config import Config
from fact_check_service.knowledge.command import main
from fact_check_service.knowledge.store import Store

ROWS = """subject,property,value,unit,aliases,source
Eiffel Tower,height,330,m,La Tour Eiffel|埃菲尔铁塔,SETE
Eiffel Tower,opening date,1889-03-31,date,,SETE
Berlin,population,3677472,,柏林,
Germany,population,83200000,,德国,
珠穆朗玛峰,海拔|height,8848.86,metre,Mount Everest,2020
"""


def made(folder: Path, rows: str = ROWS, name: str = "facts.csv") -> Path:
    (folder / name).write_text(rows, encoding="utf-8")
    main([str(folder / name), "--out", str(folder / "kb.sqlite")])
    return folder / "kb.sqlite"


async def verdicts(path: Path, text: str) -> list[tuple[str, str, str]]:
    store = Store(str(path))
    found = await KnowledgeCheck(store).judge(Context(text))
    store.close()
    return [(text[slice(*each.claim.span)], each.verdict.value, each.evidence) for each in found]


TOWER = "Eiffel Tower, height: 330 metre (SETE)"
OPENED = "Eiffel Tower, opening date: 1889-03-31 (SETE)"
BERLIN = "Berlin, population: 3677472"
EVEREST = "珠穆朗玛峰, 海拔: 8848.86 metre (2020)"


@pytest.mark.parametrize(
    ("text", "written", "verdict", "evidence"),
    [
        ("The Eiffel Tower is 330 m tall.", "330 m", "supported", TOWER),
        ("The height of the Eiffel Tower is 1,083 feet.", "1,083 feet", "supported", TOWER),
        ("The Eiffel Tower in Paris is 500 m tall.", "500 m", "contradicted", TOWER),
        ("The Eiffel Tower's height is 500 m.", "500 m", "contradicted", TOWER),
        ("埃菲尔铁塔高500米。", "500米", "contradicted", TOWER),
        ("The Eiffel Tower opened on 31 March 1889.", "31 March 1889", "supported", OPENED),
        ("The Eiffel Tower opened in 1925.", "1925", "contradicted", OPENED),
        ("珠穆朗玛峰海拔约8849米。", "8849米", "supported", EVEREST),
        ("珠穆朗玛峰海拔7848米。", "7848米", "contradicted", EVEREST),
        ("柏林的人口为500万人。", "500万人", "contradicted", BERLIN),
        (
            "The population of Berlin, the capital of Germany, is 5 million people.",
            "5 million people",
            "contradicted",
            BERLIN,
        ),
    ],
)
async def test_a_value_is_compared_with_what_is_known(
    tmp_path: Path, text: str, written: str, verdict: str, evidence: str
) -> None:
    assert await verdicts(made(tmp_path), text) == [(written, verdict, evidence)]


@pytest.mark.parametrize(
    "text",
    [
        "Unlike Berlin, Springfield has a population of 10,000 people.",
        "In 1990, Berlin had a population of 3.4 million people.",
        "Berlin's population grew by 50,000 people.",
        "The population of Berlin's suburbs is 900,000 people.",
        "Is the Eiffel Tower 500 m tall?",
        "The Eiffel Tower is not 500 m tall.",
        "The Eiffel Tower is over 300 m tall.",
        "The Eiffel Tower weighs 500 kg.",
        "The Eiffel Tower is 500 m from here.",
        "埃菲尔铁塔高500米吗？",
    ],
)
async def test_what_is_not_the_known_value_is_not_judged(tmp_path: Path, text: str) -> None:
    assert await verdicts(made(tmp_path), text) == []


async def test_each_of_two_subjects_has_its_own_value(tmp_path: Path) -> None:
    text = "Mount Everest is 9,849 m high, and the Eiffel Tower is 330 m tall."
    assert await verdicts(made(tmp_path), text) == [
        ("9,849 m", "contradicted", EVEREST),
        ("330 m", "supported", TOWER),
    ]


async def test_any_of_several_values_supports(tmp_path: Path) -> None:
    rows = "subject,property,value,unit\nOslo Tower,height,50,m\nOslo Tower,height,62,m\n"
    path = made(tmp_path, rows)
    assert [verdict for _, verdict, _ in await verdicts(path, "The Oslo Tower is 62 m high.")] == [
        "supported"
    ]
    assert [verdict for _, verdict, _ in await verdicts(path, "The Oslo Tower is 70 m high.")] == [
        "contradicted"
    ]


async def test_lines_of_json_are_read_too(tmp_path: Path) -> None:
    rows = '{"subject": "Oslo Tower", "property": "height", "value": 62, "unit": "m"}\n\n'
    path = made(tmp_path, rows, "facts.jsonl")
    assert [verdict for _, verdict, _ in await verdicts(path, "The Oslo Tower is 62 m high.")] == [
        "supported"
    ]


@pytest.mark.parametrize(
    ("name", "rows", "said"),
    [
        (
            "f.csv",
            "subject,property,value\nA,height,1\nB,height,\n",
            "f.csv, line 3, column value: is missing",
        ),
        (
            "f.csv",
            "subject,property,value\nA,height,tall\n",
            "f.csv, line 2, column value: 'tall' is no number",
        ),
        ("f.csv", "subject,property,value,unit\nA,height,1,ell\n", "line 2, column unit: unknown unit 'ell'"),
        (
            "f.csv",
            "subject,property,value,unit\nA,opened,2023-02-30,date\n",
            "column value: '2023-02-30' is no",
        ),
        ("f.csv", "subject,property,value,colour\nA,height,1,red\n", "line 2, column colour: is none of"),
        ("f.csv", "subject,property,value\nA,the,1\n", "line 2, column property: has no word"),
        ("f.csv", "subject,property,value\n???,height,1\n", "line 2, column subject: '???' has no word"),
        (
            "f.csv",
            "subject,property,value,aliases\nA,height,1,!\n",
            "line 2, column aliases: '!' has no word",
        ),
        (
            "f.jsonl",
            '{"subject": "A", "property": "height", "value": [1]}\n',
            "line 1, column value: is neither",
        ),
        (
            "f.jsonl",
            '{"subject": "A", "property": "height", "value": 1}\n{\n',
            "f.jsonl, after line 1: Expecting",
        ),
        ("f.txt", "", "ends in neither"),
    ],
)
def test_a_bad_row_is_named_and_leaves_what_was_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, rows: str, said: str
) -> None:
    before = made(tmp_path).read_bytes()
    with pytest.raises(SystemExit) as caught:
        made(tmp_path, rows, name)
    assert caught.value.code == 1
    assert said in capsys.readouterr().err
    assert (tmp_path / "kb.sqlite").read_bytes() == before
    assert {path.name for path in tmp_path.iterdir()} == {"facts.csv", "kb.sqlite", name}


@pytest.mark.parametrize("content", [None, b"", b"no database at all" * 100])
def test_a_file_that_is_no_knowledge_base_is_an_error_of_the_variable(
    tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "kb.sqlite"
    if content is not None:
        path.write_bytes(content)
    for config in (Config(knowledge=str(path)), Config()):
        with pytest.raises(ConfigError) as caught:
            make(config)
        assert caught.value.field == "TANDEM_FACT_CHECK_KNOWLEDGE"


async def test_a_closed_check_has_no_file_open(tmp_path: Path) -> None:
    check = make(Config(knowledge=str(made(tmp_path))))
    text = "The Eiffel Tower is 330 m tall."
    assert [found.verdict.value for found in await check.judge(Context(text))] == ["supported"]
    await check.close()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        await check.judge(Context("Berlin has a population of 5 million people."))


def test_a_subject_is_found_through_the_index(tmp_path: Path) -> None:
    store = Store(str(made(tmp_path)))
    plan = store._database.execute("EXPLAIN QUERY PLAN SELECT subject FROM terms WHERE term = ?", ("berlin",))
    assert "SEARCH" in plan.fetchone()[3]
    store.close()
