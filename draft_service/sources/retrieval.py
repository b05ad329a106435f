"""What follows the text's last tokens in a datastore of documents (REST, He et al. 2023)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from common.errors import ConfigError
from common.model import store
from common.model.tokenizer import fingerprint
from draft_service.config import Config
from draft_service.session import Session
from draft_service.sources import datastore
from draft_service.sources.base import NOTHING, Guess
from draft_service.sources.continuations import Trie
from draft_service.sources.datastore import VARIABLE, Datastore

_MOST_MATCHES = 64
_DOUBT = 8.0  # a match of eight tokens is as likely to go on otherwise; measured on answers of chat models


def make(config: Config, folder: str) -> RetrievalSource:
    if not config.datastore:
        raise ConfigError(f"{VARIABLE}: the source retrieval needs a datastore", field=VARIABLE)
    ours = fingerprint(store.load_tokenizer(folder))
    return RetrievalSource(datastore.load(Path(config.datastore), ours))


class RetrievalSource:
    """The continuations of the longest tail that the documents have, each as likely as it is frequent."""

    name = "retrieval"
    model_version = "1"

    def __init__(self, documents: Datastore) -> None:
        self._documents = documents

    def propose(self, sessions: Sequence[Session]) -> list[Guess | None]:
        return [self._guess(session) for session in sessions]

    def close(self, session_id: str) -> None:
        """Nothing is kept of a session."""

    def _guess(self, session: Session) -> Guess:
        trie = Trie()
        for place, length in self._documents.find(session.tokens, _MOST_MATCHES):
            guesses = self._documents.after(place, session.longest)
            trie.add(guesses[: session.allowed_length(guesses)], length)
        return trie.best(session.block_size, session.tree_width, doubt=_DOUBT) if trie.following else NOTHING
