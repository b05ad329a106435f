"""Templates with slots, and the prompts that come of them.

A template is a line of ``templates/<class>.<language>.txt``, its line breaks written as ``\\n``. A slot,
such as ``{city}``, takes one of its values in ``slots/<language>.toml``, which may have slots themselves;
some slots are numbers, or texts of several sentences. Whatever else stands in braces stays as it is.
"""

from __future__ import annotations

import itertools
import random
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent
LANGUAGES = ("en", "zh")
_SLOT = re.compile(r"\{([^\W\d_]+)\}")
_PIECE = re.compile(r"[ -~]+? |[ -~]+|[^ -~]{1,2}")
"""A word with the space after it, or two ideographs."""
_REPLACED = 0.35
_LONGEST = 60


@dataclass(frozen=True, slots=True)
class Text:
    """``least`` to ``most`` sentences out of a slot's values; a ``cut`` text begins in mid-sentence."""

    values: str
    least: int
    most: int
    cut: bool = False


_TEXTS = {
    "document": Text("sentence", 6, _LONGEST),
    "passage": Text("sentence", 2, 6),
    "cutdoc": Text("sentence", 15, _LONGEST, cut=True),
    "wikidoc": Text("fact", 12, _LONGEST),
    "cutwiki": Text("fact", 12, _LONGEST, cut=True),
    "长文": Text("文句", 8, 2 * _LONGEST),
    "段落": Text("文句", 2, 7),
    "残文": Text("文句", 20, 2 * _LONGEST, cut=True),
    "百科": Text("事实", 12, 2 * _LONGEST),
}
_NUMBERS = {
    "n": (2, 24),
    "N": (25, 900),
    "pct": (5, 95),
    "year": (1890, 2024),
    "数": (2, 20),
    "大数": (21, 900),
    "年份": (1900, 2050),
}


@dataclass(frozen=True, slots=True)
class Template:
    """``name``: its file and line."""

    name: str
    prompt_class: str
    language: str
    text: str


def templates() -> list[Template]:
    return [
        Template(f"{path.stem}:{number}", path.stem[:-3], path.stem[-2:], line.replace("\\n", "\n"))
        for path in sorted((FOLDER / "templates").glob("*.txt"))
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
    ]


class Filler:
    """Fills the slots of templates of one language."""

    def __init__(self, language: str, rng: random.Random) -> None:
        self._slots = slots(language)
        self._between = " " if language == "en" else ""
        self._rng = rng
        self._pieces = {
            text.values: _PIECE.findall(self._between.join(self._slots[text.values]))
            for text in _TEXTS.values()
            if text.values in self._slots
        }

    def fill(self, template: str) -> str:
        """The template with a value drawn for each of its slots.

        Raises:
            KeyError: naming a slot that has no values.
        """
        return _SLOT.sub(lambda found: self._value(found[1]), template)

    def _value(self, slot: str) -> str:
        if slot in _NUMBERS:
            return str(self._rng.randint(*_NUMBERS[slot]))
        if slot in _TEXTS:
            return self._text(_TEXTS[slot])
        return self.fill(self._rng.choice(self._slots[slot]))

    def _text(self, text: Text) -> str:
        values = self._slots[text.values]
        shuffled = self._rng.sample(values, len(values))
        count = self._rng.randint(text.least, text.most)
        sentences = self._between.join(itertools.islice(itertools.cycle(shuffled), count))
        mixed = self._mixed(sentences, self._pieces[text.values])
        return mixed[self._rng.randint(4, 40) :].lstrip("，。, ") if text.cut else mixed

    def _mixed(self, sentences: str, others: Sequence[str]) -> str:
        """Some pieces replaced by those of any sentences, so that none can be learnt by heart."""
        return "".join(
            self._rng.choice(others) if self._rng.random() < _REPLACED else piece
            for piece in _PIECE.findall(sentences)
        )


def slots(language: str) -> Mapping[str, Sequence[str]]:
    """The values of each slot that is no number and no text."""
    return tomllib.loads((FOLDER / "slots" / f"{language}.toml").read_text("utf-8"))


def names(template: str) -> set[str]:
    """The slots that a template has."""
    return set(_SLOT.findall(template))


def known(language: str) -> set[str]:
    """The slots that a template of a language may have."""
    return {*slots(language), *_NUMBERS, *_TEXTS}
