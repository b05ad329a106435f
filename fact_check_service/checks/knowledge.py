"""Claims against a local knowledge base."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from common.errors import ConfigError
from fact_check_service.checks.base import Context, Finding
from fact_check_service.config import Config
from fact_check_service.knowledge.store import Store
from fact_check_service.knowledge.terms import terms
from fact_check_service.sentences import Span
from fact_check_service.stated import Mention, judge, readable

VARIABLE = "TANDEM_FACT_CHECK_KNOWLEDGE"


class KnowledgeCheck:
    name = "knowledge"

    def __init__(self, store: Store) -> None:
        self._store = store

    async def judge(self, context: Context) -> Sequence[Finding]:
        return [
            finding
            for sentence, claims in context.sentences
            if readable(context.text, sentence, claims)
            for finding in judge(
                context.text, sentence, claims, list(self._mentions(context.text, sentence)), self.name
            )
        ]

    async def close(self) -> None:
        self._store.close()

    def _mentions(self, text: str, sentence: Span) -> Iterator[Mention]:
        """The subjects that the sentence names; a name inside a longer one names nothing by itself."""
        end = sentence.start
        for written, span in terms(text, sentence, self._store.lengths):
            statements = self._store.named(written) if span.start >= end else ()
            if statements:
                end = span.end
                yield Mention(span, statements)


def make(config: Config) -> KnowledgeCheck:
    """
    Raises:
        ConfigError: naming the variable when there is no knowledge base at its path.
    """
    if not config.knowledge:
        raise ConfigError(f"{VARIABLE}: the check knowledge needs a file", field=VARIABLE)
    try:
        return KnowledgeCheck(Store(config.knowledge))
    except ValueError as error:
        raise ConfigError(f"{VARIABLE}: {config.knowledge}: {error}", field=VARIABLE) from None
