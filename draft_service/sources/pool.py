"""Several sources at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from draft_service import metrics
from draft_service.config import Config
from draft_service.session import Session
from draft_service.sources import registry
from draft_service.sources.agreement import disagreements
from draft_service.sources.base import Guess, Source
from draft_service.sources.merging import Proposal, merge
from draft_service.sources.standing import Standing

_EXPLORE_EVERY = (
    16  # blocks of a session, of which one goes to the source that has not been asked the longest
)
_LONGEST_VERSION = 128
_MOST_PENDING = 16


def make(config: Config, folder: str) -> Source:
    sources = [registry.make_one(name, config, folder) for name in config.sources]
    return _KINDS[config.pool](sources)


@dataclass(frozen=True, slots=True)
class _Pending:
    """``guesses``, by source, were made after ``base_length`` tokens, of which the last were ``assumed``."""

    base_length: int
    assumed: tuple[int, ...]
    guesses: dict[int, Guess]

    def holds(self, tokens: Sequence[int]) -> bool:
        """Whether the committed ``tokens`` are, so far, those it was made for."""
        start = self.base_length - len(self.assumed)
        known = tuple(tokens[start : self.base_length])
        return known == self.assumed[: len(known)]


@dataclass(slots=True)
class _Record:
    """What is known of the sources in one session.

    Attributes:
        pending: what was made since the last commit, at most so many.
        asked_at: the block for which each source was asked the last time.
        turn: the source after the one whose guesses fell last; 0 where they all stood.
    """

    standings: list[Standing]
    asked_at: list[int]
    pending: deque[_Pending] = field(default_factory=lambda: deque(maxlen=_MOST_PENDING))
    blocks: int = 0
    turn: int = 0

    def add(self, session: Session, guesses: dict[int, Guess]) -> None:
        assumed = tuple(session.tokens[session.num_committed :])
        self.pending.append(_Pending(len(session.tokens), assumed, guesses))

    def take_known(self, tokens: Sequence[int]) -> list[_Pending]:
        """What the committed ``tokens`` say something about; of the rest what they do not rule out stays."""
        alive = [pending for pending in self.pending if pending.holds(tokens)]
        self.pending.clear()
        self.pending += [pending for pending in alive if pending.base_length >= len(tokens)]
        return [pending for pending in alive if pending.base_length < len(tokens)]


class _Pool:
    """Sources that run one after the other, and what the commits have said of their guesses.

    A source is judged by the text that followed, so also where its guesses were not sent or not verified.
    """

    name = "pool"

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = sources
        self._records: dict[str, _Record] = {}

    @property
    def sources(self) -> Sequence[Source]:
        return self._sources

    @property
    def model_version(self) -> str:
        named = (f"{source.name}-{source.model_version}" for source in self._sources)
        return "+".join(named)[:_LONGEST_VERSION]

    def close(self, session_id: str) -> None:
        self._records.pop(session_id, None)
        for source in self._sources:
            source.close(session_id)

    def _learned(self, session: Session) -> _Record:
        """The session's record, with the guesses of the last block judged."""
        record = self._records.get(session.session_id)
        if record is None:
            standings = [Standing() for _ in self._sources]
            record = self._records[session.session_id] = _Record(standings, [0] * len(standings))
        tokens = session.tokens[: session.num_committed]
        for pending in record.take_known(tokens):
            for index, guess in pending.guesses.items():
                stood, fell = record.standings[index].judge(guess, tokens[pending.base_length :])
                record.turn = (index + 1) % len(self._sources) if fell else 0
                metrics.SOURCE_GUESSES.labels(self._sources[index].name, "stood").inc(stood)
                metrics.SOURCE_GUESSES.labels(self._sources[index].name, "fell").inc(fell)
        return record


class MergingSource(_Pool):
    """What all of the sources guess, in one tree or, where a chain is wanted, one chain; see ``merge``."""

    def propose(self, sessions: Sequence[Session]) -> list[Guess | None]:
        records = [self._learned(session) for session in sessions]
        answers = [source.propose(sessions) for source in self._sources]
        by_session = zip(*answers, strict=True)
        return [
            self._merged(session, record, guesses)
            for session, record, guesses in zip(sessions, records, by_session, strict=True)
        ]

    def _merged(self, session: Session, record: _Record, guesses: Sequence[Guess | None]) -> Guess | None:
        """A source that is not ready does not hold up the others."""
        said = {index: guess for index, guess in enumerate(guesses) if guess and guess.token_ids}
        if all(guess is None for guess in guesses):
            return None
        record.add(session, said)
        proposals = [
            Proposal(self._sources[index].name, guess, record.standings[index])
            for index, guess in said.items()
        ]
        merged = merge(proposals, session.block_size, session.tree_width)
        if not session.shown_temperature:
            return merged
        apart = disagreements(merged, said.values(), session.vocabulary_size)
        return replace(merged, disagreements=apart)


class BestSource(_Pool):
    """The source of which most guesses have stood lately proposes alone.

    One that has not been asked is assumed to do well, and one block in ``_EXPLORE_EVERY`` goes to the one
    that has not been asked the longest. Where the first has nothing or is not ready, the next is asked. Which
    one it is depends on committed text alone, so its q's are what they say.
    """

    def propose(self, sessions: Sequence[Session]) -> list[Guess | None]:
        rankings = {session: self._ranking(self._learned(session)) for session in sessions}
        results: dict[Session, Guess | None] = dict.fromkeys(sessions)
        for rank in range(len(self._sources)):
            waiting = [session for session in sessions if not _says(results[session])]
            for index, source in enumerate(self._sources):
                asked = [session for session in waiting if rankings[session][rank] == index]
                for session, guess in zip(asked, source.propose(asked) if asked else (), strict=True):
                    if guess is not None:
                        results[session] = self._chosen(session, index, guess)
        return [results[session] for session in sessions]

    def _ranking(self, record: _Record) -> list[int]:
        record.blocks += 1
        ranking = sorted(range(len(self._sources)), key=lambda index: -record.standings[index].length)
        if record.blocks % _EXPLORE_EVERY == 0:
            longest = min(ranking, key=lambda index: record.asked_at[index])
            ranking.remove(longest)
            ranking.insert(0, longest)
        return ranking

    def _chosen(self, session: Session, index: int, guess: Guess) -> Guess:
        record = self._records[session.session_id]
        record.asked_at[index] = record.blocks
        if guess.token_ids:
            record.add(session, {index: guess})
        return replace(guess, sources=(self._sources[index].name,) * len(guess.token_ids))


class RoundsSource(BestSource):
    """The sources in turn: after a rejection the next one drafts from the corrected text, after a block that
    stood the first. Where one has nothing, the next is asked at once."""

    def _ranking(self, record: _Record) -> list[int]:
        record.blocks += 1
        return [(record.turn + step) % len(self._sources) for step in range(len(self._sources))]


_KINDS: Mapping[str, type[MergingSource | BestSource]] = {
    "merge": MergingSource,
    "best": BestSource,
    "rounds": RoundsSource,
}


def _says(guess: Guess | None) -> bool:
    return guess is not None and bool(guess.token_ids)
