"""What rules say comes next: expressions from a file, the prompt's names, a JSON schema's keys, fences."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import regex

from common.model import store
from common.model.tokenizer import Tokenizer
from draft_service.config import Config
from draft_service.session import Session
from draft_service.sources import fences
from draft_service.sources.base import NOTHING, Guess
from draft_service.sources.continuations import Trie
from draft_service.sources.rule_file import Rule, load_rules

_TAIL_TOKENS, _TAIL_CHARACTERS = 128, 256
_BOUNDARY_TOKENS = (4, 2, 1)
_PROMPT_TOKENS, _MOST_NAMES, _MOST_KEYS = 4096, 256, 256
_HALF_A_CHARACTER = "\N{REPLACEMENT CHARACTER}"

# Every part is bounded and no two neighbours match the same character: linear in the text.
_NAME = regex.compile(r"\b\p{Lu}[\p{L}\p{N}]{1,40}(?: \p{Lu}[\p{L}\p{N}]{0,40}){0,4}")
_NAME_BEGUN = regex.compile(r"(?<=\bthe )\p{Lu}[\p{L}\p{N}]{0,40}(?: [\p{L}\p{N}]{0,40}){0,4}\Z")
_KEY_BEGUN = regex.compile(r'[{,]\s{0,40}"([^"\\]{0,80})\Z')


def make(config: Config, folder: str) -> RuleSource:
    return RuleSource(Tokenizer(store.load_tokenizer(folder)), load_rules(config.rules))


@dataclass(frozen=True, slots=True)
class _Known:
    """What a session's beginning says: names by how often the prompt has them, keys of its schema, the
    programming language that the prompt asks for."""

    names: tuple[str, ...]
    keys: tuple[str, ...]
    language: str


class RuleSource:
    """Each rule looks at the end of the text; what several propose makes a tree, the file's rules first.

    A continuation is encoded together with the last tokens of the text, so that its tokens are those that
    the tokenizer makes there. It declares no confidences: nobody has counted how often a rule is right.
    """

    name = "rules"
    model_version = "1"

    def __init__(self, tokenizer: Tokenizer, rules: Sequence[Rule]) -> None:
        self._tokenizer = tokenizer
        self._rules = tuple(rules)
        self._known: dict[str, tuple[Session, _Known]] = {}

    def propose(self, sessions: Sequence[Session]) -> list[Guess | None]:
        return [self._guess(session) for session in sessions]

    def close(self, session_id: str) -> None:
        self._known.pop(session_id, None)

    def _guess(self, session: Session) -> Guess:
        tail = self._tokenizer.decode(session.tokens[-_TAIL_TOKENS:])[-_TAIL_CHARACTERS:]
        if tail.endswith(_HALF_A_CHARACTER):
            return NOTHING
        trie = Trie()
        for text in dict.fromkeys(self._continuations(session, tail)):
            guesses = self._encoded(session.tokens, text)[: session.longest]
            trie.add(guesses[: session.allowed_length(guesses)], 1.0)
        best = trie.best(session.block_size, session.tree_width)
        return replace(best, confidences=()) if best.token_ids else NOTHING

    def _continuations(self, session: Session, tail: str) -> Iterator[str]:
        yield from filter(None, (rule.after(tail) for rule in self._rules))
        known = self._of(session)
        if known.keys and (begun := _KEY_BEGUN.search(tail)):
            yield from _completions(begun[1], known.keys, '":')
        if known.names and (begun := _NAME_BEGUN.search(tail)):
            yield from _completions(begun[0], known.names)
        if tail.endswith(fences.ENDS):
            answer = session.tokens[session.prompt_length :][-_TAIL_TOKENS:]
            yield from fences.openings(self._tokenizer.decode(answer)[-_TAIL_CHARACTERS:], known.language)

    def _of(self, session: Session) -> _Known:
        owner, known = self._known.get(session.session_id, (None, None))
        if known is None or owner is not session:
            prompt = self._tokenizer.decode(session.tokens[: session.prompt_length][-_PROMPT_TOKENS:])
            known = _Known(names(prompt), schema_keys(session.grammar), fences.language(prompt))
            self._known[session.session_id] = session, known
        return known

    def _encoded(self, tokens: Sequence[int], text: str) -> list[int]:
        """The tokens of ``text`` after ``tokens``; encoded alone where together the last would be others."""
        for count in _BOUNDARY_TOKENS:
            before = list(tokens[-count:])
            together = self._tokenizer.encode_plain(self._tokenizer.decode(before) + text)
            if together[: len(before)] == before:
                return together[len(before) :]
        return self._tokenizer.encode_plain(text)


def names(prompt: str) -> tuple[str, ...]:
    """Words with capitals that a text has, in a row or by themselves, the most frequent first."""
    counted = Counter[str](match[0] for match in _NAME.finditer(prompt))
    return tuple(name for name, _ in counted.most_common(_MOST_NAMES))


def schema_keys(grammar: str) -> tuple[str, ...]:
    """The property names of a JSON schema in llguidance's form, outer ones first; none in other grammars."""
    if not grammar.lstrip().startswith("{"):
        return ()
    grammars = json.loads(grammar).get("grammars", ())
    waiting: list[Any] = [entry.get("json_schema") for entry in grammars]
    found: dict[str, None] = {}
    while waiting and len(found) < _MOST_KEYS:
        part = waiting.pop(0)
        if isinstance(part, dict):
            properties = part.get("properties")
            found |= dict.fromkeys(properties if isinstance(properties, dict) else ())
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part
    return tuple(found)[:_MOST_KEYS]


def _completions(begun: str, known: Sequence[str], end: str = "") -> Iterator[str]:
    for whole in known:
        rest = whole[len(begun) :] + end
        if whole.startswith(begun) and rest:
            yield rest
