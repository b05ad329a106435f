"""What followed the text's last tokens before: in this session, in the tenant's answers, in templates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from common.errors import ConfigError
from common.model import store
from common.model.tokenizer import Tokenizer
from draft_service.config import Config
from draft_service.session import Session
from draft_service.sources.base import NOTHING, Guess
from draft_service.sources.continuations import Trie
from draft_service.sources.history import History
from draft_service.sources.occurrences import Occurrences

_MOST_MATCHES = 32  # of each text
_OWN = 8.0  # how many occurrences elsewhere one in the session's own text is worth
_DOUBT = 8.0  # one own occurrence that agrees in one token is as likely wrong as right
_DIVIDER = "---"
_TEMPLATES = "TANDEM_DRAFT_TEMPLATES"


def make(config: Config, folder: str) -> SuffixSource:
    history = History(config.suffix_tokens, config.suffix_tenant_tokens, config.suffix_tenants)
    if not config.templates:
        return SuffixSource(history)
    tokenizer = Tokenizer(store.load_tokenizer(folder))
    return SuffixSource(history, [tokenizer.encode(text) for text in read_templates(config.templates)])


def read_templates(path: str) -> list[str]:
    """The texts of a file between lines of three dashes.

    Raises:
        ConfigError: for a file that cannot be read or holds no text.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines(keepends=True)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{_TEMPLATES}: {path}: {error}", field=_TEMPLATES) from None
    texts = [""]
    for line in lines:
        if line.rstrip() == _DIVIDER:
            texts.append("")
        else:
            texts[-1] += line
    templates = [text for text in texts if text.strip()]
    if not templates:
        raise ConfigError(f"{_TEMPLATES}: {path} holds no template", field=_TEMPLATES)
    return templates


@dataclass(slots=True, eq=False)
class _Own:
    """A session and the index of its committed tokens, which are never taken back."""

    session: Session
    texts: Occurrences = field(default_factory=Occurrences)

    def read(self) -> None:
        self.texts.extend(self.session.tokens[len(self.texts) : self.session.num_committed])


class SuffixSource:
    """The continuations of what the text ends with, weighed as in SuffixDecoding (Oliaro et al. 2024).

    That paper keeps a suffix tree. In Python its nodes, or those of a suffix automaton, take a kilobyte a
    token, and neither lets an old answer go. Here the places of short runs are chained (``Occurrences``), so
    that a token comes and goes in constant time, and the part of the tree that is below the match is put
    together when it is asked for, from the latest occurrences: every guess followed one of them.

    An occurrence counts for the length of its match, so a continuation is worth frequency × length; what was
    seen in the session's own text counts more. The confidences are the shares of these weights.

    A session's answer becomes its tenant's when the session is closed. One that is closed and opened again,
    as after a commit out of sync, leaves its beginning twice.
    """

    name = "suffix"
    model_version = "1"

    def __init__(self, history: History, templates: Sequence[Sequence[int]] = ()) -> None:
        self._history = history
        self._templates = Occurrences()
        for template in templates:
            self._templates.extend(template)
            self._templates.end_text()
        self._sessions: dict[str, _Own] = {}

    def propose(self, sessions: Sequence[Session]) -> list[Guess | None]:
        return [self._guess(session) for session in sessions]

    def close(self, session_id: str) -> None:
        own = self._sessions.pop(session_id, None)
        if own:
            session = own.session
            self._history.add(session.tenant, session.tokens[session.prompt_length :])

    def _guess(self, session: Session) -> Guess:
        trie = Trie()
        for texts, weight in self._texts(session):
            for place, length in texts.find(session.tokens, _MOST_MATCHES):
                guesses = texts.after(place, session.longest)
                trie.add(guesses[: session.allowed_length(guesses)], weight * length)
        return trie.best(session.block_size, session.tree_width, doubt=_DOUBT) if trie.following else NOTHING

    def _texts(self, session: Session) -> Iterator[tuple[Occurrences, float]]:
        """Where to look, and what an occurrence there is worth."""
        own = self._sessions.get(session.session_id)
        if own is None or own.session is not session:
            own = self._sessions[session.session_id] = _Own(session)
        own.read()
        yield own.texts, _OWN
        answers = self._history.of(session.tenant)
        if answers:
            yield answers, 1.0
        yield self._templates, 1.0
