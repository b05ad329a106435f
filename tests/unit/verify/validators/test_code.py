"""Code that is unfinished passes wherever it is cut; code that is wrong is cut where it went wrong."""

from __future__ import annotations

import inspect
import random
import textwrap

import pytest

from tests.unit.verify.validators.support import assert_never_cut, made, stands
from verify_service.validators import registry, syntax

PYTHON = '''\
"""Of (many) [kinds], 'quoted'."""
import os, sys
from typing import (Any,
                    Sequence)

@decorated(1, *more, **others)
async def f(a: int = 1, /, *b, c: "x" = {1: [2, 3]}, **d) -> None:
    # a comment with ( in it
    x = a if b else c; y = not x
    z = f"{x!r:>{y}} and {z['k']}" + r'\\d' + b"\\x00" + """more
lines )"""
    with open(x) as one, y as two:
        return [i async for i in z if i != 0x1F or i >= 1e-5 or 1_000j]
    try:
        assert x, y
    except (A, B) as e:
        raise C from e
    else:
        pass
    finally:
        del x[1:2, ::3]


class Ünicode(Base, metaclass=M):
    x: int = 3
    naïve = lambda self, *a: (yield)
    def g(self): return self.x ** -2 // 3 if self else ...

while (n := next(it)) is not None:
    match n:
        case {"a": [1, *_]} | None:
            continue
        case _ if n:
            break
print("é", end="")
'''
JAVASCRIPT = """\
// a comment with (
/* and a ) longer
   one */
import { a as b, c } from "./d.js";
const x = `of ${a + `in ${b}`} kinds (`, r = /[/)]+\\/(x)/gi.exec('it\\'s');
let {p, q: [s = 1, ...t]} = await f(...y) ?? z?.w;
async function* g(u, v = {k: 1, [m]: 2, n() { return 0x1F }}) {
  for (const i of u) if (i >= 1e+5 && i !== -3.2) yield* i; else continue
  label: while (true) { break label }
  try { throw new Error("é") } catch { } finally { v = u ? 1 : 2 }
  switch (u) { case 1: return; default: u++ }
}
class Ünicode extends B {
  static #p = 1;
  get x() { return this.#p ** 2 }
  async *y() { }
}
const h = async (a) => ({ ...a, b }), j = a => a.map((v, i) => v << i)
const k = <div className="a" {...b}>text {c} <br/></div>;
export default h;
"""
WRONG = {
    "python": {
        "x = = 3\n": "x = =",
        "foo(]\n": "foo(",
        "print(x))\n": "print(x)",
        "a if b els x\n": "a if b els",
        "def f(:\n": "def f(:",
        "a = b c d\n": "a = b c",
        "x = {'é': 1)": "x = {'é': 1",
        "1e+ 3": "1e+",
    },
    "javascript": {
        "let x = ;": "let x = ",
        "if (x) }": "if (x) ",
        "a = /* x ) y */ b; )": "a = /* x ) y */ b; ",
        "f(a b c)": "f(a b",
        "`a ${b]}`": "`a ${b",
    },
}
WRONG_CASES = [(name, text, good) for name, cases in WRONG.items() for text, good in cases.items()]
SOURCES = {"python": PYTHON, "javascript": JAVASCRIPT}


@pytest.mark.parametrize("name", SOURCES)
def test_no_beginning_of_a_program_is_ever_cut(name: str) -> None:
    assert_never_cut(name, SOURCES[name], whole="true")


@pytest.mark.parametrize("module", [textwrap, registry, syntax], ids=lambda module: module.__name__)
def test_no_beginning_of_a_real_module_is_ever_cut_as_it_grows_by_blocks(module: object) -> None:
    text = inspect.getsource(module)  # type: ignore[arg-type]
    validator, chance, start = made("python", whole="true"), random.Random(5), 0
    while start < len(text):
        drafted = text[: start + chance.randint(1, 40)]
        assert stands(validator, drafted, start) == drafted
        start += chance.randint(1, 20)


@pytest.mark.parametrize(("name", "text", "good"), WRONG_CASES)
def test_what_is_wrong_is_cut_where_no_program_can_go_on_any_more(name: str, text: str, good: str) -> None:
    before = SOURCES[name]
    for start in range(len(good) + 1):
        assert stands(made(name, whole="true"), text, start) == good
        whole = before + text
        assert stands(made(name, whole="true"), whole, len(before) + start) == before + good


@pytest.mark.parametrize(("name", "text", "good"), WRONG_CASES)
def test_a_cut_does_not_depend_on_how_the_text_came(name: str, text: str, good: str) -> None:
    growing, text = made(name, whole="true"), SOURCES[name] + text
    for start in range(0, len(text) - 20, 3):
        assert stands(growing, text[: start + 3], start) == text[: start + 3]
    assert stands(growing, text, len(text) - 15) == SOURCES[name] + good


@pytest.mark.parametrize(("name", "text", "good"), WRONG_CASES)
def test_once_an_answer_is_wrong_nothing_is_cut_any_more(name: str, text: str, good: str) -> None:
    validator = made(name, whole="true")
    longer = text + "\n" + text
    for start in range(len(good) + 1, len(longer)):
        assert stands(validator, longer, start) == longer


def test_of_two_drafts_after_one_text_each_is_judged_by_itself() -> None:
    validator, text = made("python", whole="true"), "x = (1,"
    for _ in range(3):
        assert stands(validator, text + " 2]", len(text)) == text + " 2"
        assert stands(validator, text + " 2)", len(text)) == text + " 2)"


def test_only_code_in_a_block_of_the_language_is_looked_at() -> None:
    text = "So = = ):\n```python\nx = 1\n```\nand )):\n```js\nif )\n```\n~~~~py\ny = (\n~~~\n~~~~\nend ) ```"
    assert stands(made("python"), text) == text
    assert stands(made("python"), text.replace("y = (", "y = )")).endswith("~~~~py\ny = ")
    assert stands(made("javascript"), text).endswith("```js\nif ")


@pytest.mark.parametrize("end", ["`", "``", "```", "```\n", "```\n\nThat ) is it"])
def test_the_end_of_a_block_is_not_code(end: str) -> None:
    text = "```python\nx = f(1)\n" + end
    assert stands(made("python"), text) == text
    assert stands(made("python"), text, len(text) - 1) == text


def test_of_several_blocks_a_later_one_is_judged_though_an_earlier_was_wrong() -> None:
    text = "```python\nx = )\n```\nBetter:\n```python\nx = (1]\n"
    start = text.index("Better")
    assert stands(made("python"), text, start).endswith("x = (1")


def test_long_code_is_not_parsed_from_its_beginning_each_time() -> None:
    text = PYTHON * 40
    validator = made("python", whole="true")
    assert isinstance(validator, syntax.Syntax)
    for start in range(0, len(text), 40):
        assert stands(validator, text[: start + 40], start) == text[: start + 40]
    assert len(text) - validator._base < 2 * len(PYTHON) + syntax._LONG
    assert stands(validator, text + "x = )", len(text)) == text + "x = "
