"""Events to OpenAI objects: whole answers and chunks, for chat and for text completions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from common.types import Annotation, Delta, Finished, Plan, SpeculationStats, Started, Usage

Json = dict[str, Any]


class Shape(ABC):
    """Where an endpoint's objects keep the text."""

    id_prefix: ClassVar[str]
    answer_object: ClassVar[str]
    chunk_object: ClassVar[str]

    @abstractmethod
    def whole(self, text: str) -> Json:
        """The part of a choice that holds all of the text."""

    @abstractmethod
    def piece(self, text: str) -> Json:
        """The part of a streamed choice that holds some of the text."""

    @abstractmethod
    def end(self) -> Json:
        """The part of a streamed choice that only carries the finish reason."""

    @abstractmethod
    def opening(self) -> Json | None:
        """The part of a streamed choice that comes before any text; None: no such chunk."""


class ChatShape(Shape):
    id_prefix = "chatcmpl-"
    answer_object = "chat.completion"
    chunk_object = "chat.completion.chunk"

    def whole(self, text: str) -> Json:
        return {"message": {"role": "assistant", "content": text}}

    def piece(self, text: str) -> Json:
        return {"delta": {"content": text}}

    def end(self) -> Json:
        return {"delta": {}}

    def opening(self) -> Json | None:
        return {"delta": {"role": "assistant", "content": ""}}


class TextShape(Shape):
    id_prefix = "cmpl-"
    answer_object = "text_completion"
    chunk_object = "text_completion"

    def whole(self, text: str) -> Json:
        return {"text": text}

    def piece(self, text: str) -> Json:
        return {"text": text}

    def end(self) -> Json:
        return {"text": ""}

    def opening(self) -> Json | None:
        return None


@dataclass(frozen=True, slots=True)
class Renderer:
    """Renders one answer. ``created`` is in Unix seconds."""

    shape: Shape
    request_id: str
    model: str
    created: int
    plan: Plan
    started: Started
    include_usage: bool = False

    def answer(self, text: str, annotations: Iterable[Annotation], finished: Finished) -> Json:
        """The one object of an answer that is not streamed."""
        choice = _choice(self.shape.whole(text), finished.reason.value)
        return {
            **self._envelope(self.shape.answer_object),
            "choices": [choice],
            "usage": usage_object(finished.usage),
            "tandem": self._tandem(annotations, finished.stats),
        }

    def opening(self) -> list[Json]:
        """The chunks before any text."""
        content = self.shape.opening()
        return [] if content is None else [self._chunk([_choice(content)])]

    def delta(self, delta: Delta) -> list[Json]:
        """No chunk for a delta that only carries tokens: their text comes with a later one."""
        if not delta.text and not delta.annotations:
            return []
        chunk = self._chunk([_choice(self.shape.piece(delta.text))])
        if delta.annotations:
            chunk["tandem"] = {"annotations": [asdict(a) for a in delta.annotations]}
        return [chunk]

    def finish(self, annotations: Iterable[Annotation], finished: Finished) -> Json:
        """The last chunk with a choice."""
        chunk = self._chunk([_choice(self.shape.end(), finished.reason.value)])
        return {**chunk, "tandem": self._tandem(annotations, finished.stats)}

    def usage(self, finished: Finished) -> list[Json]:
        """The chunk with usage and no choice, where the client asked for it."""
        return [{**self._chunk([]), "usage": usage_object(finished.usage)}] if self.include_usage else []

    def _envelope(self, kind: str) -> Json:
        return {
            "id": self.shape.id_prefix + self.request_id,
            "object": kind,
            "created": self.created,
            "model": self.model,
            "system_fingerprint": self.started.system_fingerprint,
        }

    def _chunk(self, choices: Sequence[Json]) -> Json:
        usage = {"usage": None} if self.include_usage else {}
        return {**self._envelope(self.shape.chunk_object), "choices": list(choices), **usage}

    def _tandem(self, annotations: Iterable[Annotation], stats: SpeculationStats) -> Json:
        return {
            "prompt_class": self.plan.prompt_class,
            "mode": self.started.mode.value,
            "drafts": [draft.name for draft in self.plan.drafts],
            "speculation": speculation_object(stats),
            "annotations": [asdict(annotation) for annotation in annotations],
        }


def usage_object(usage: Usage) -> Json:
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
    }


def speculation_object(stats: SpeculationStats) -> Json:
    """The counters with the two ratios drawn from them, null where nothing was drafted.

    The mean acceptance length counts the token that the target adds to every verified block.
    """
    return {
        **asdict(stats),
        "mean_acceptance_length": 1 + stats.accepted_tokens / stats.drafts if stats.drafts else None,
        "draft_acceptance_rate": stats.accepted_tokens / stats.draft_tokens if stats.draft_tokens else None,
    }


def model_object(name: str, created: int) -> Json:
    return {"id": name, "object": "model", "created": created, "owned_by": "tandem"}


def _choice(content: Json, finish_reason: str | None = None) -> Json:
    return {"index": 0, **content, "logprobs": None, "finish_reason": finish_reason}
