"""Events to OpenAI objects: whole answers and chunks, for chat and for text completions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from itertools import zip_longest
from typing import Any, ClassVar

from common.types import (
    LOSSLESS,
    Annotation,
    Delta,
    Finished,
    Plan,
    SpeculationStats,
    Started,
    TokenLogprobs,
    Usage,
)
from gateway import logprobs
from gateway.trace import step_object

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

    @abstractmethod
    def logprobs(self, tokens: Sequence[TokenLogprobs], offset: int) -> Json:
        """``offset``: where in the choice's text the first token begins."""


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

    def logprobs(self, tokens: Sequence[TokenLogprobs], offset: int) -> Json:
        return logprobs.chat(tokens)


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

    def logprobs(self, tokens: Sequence[TokenLogprobs], offset: int) -> Json:
        return logprobs.completion(tokens, offset)


@dataclass(slots=True)
class Whole:
    """One choice, gathered to its end."""

    text: str = ""
    annotations: list[Annotation] = field(default_factory=list)
    logprobs: list[TokenLogprobs] = field(default_factory=list)
    traced: list[Delta] = field(default_factory=list)
    finished: Finished | None = None

    def add(self, event: Delta | Finished) -> None:
        if isinstance(event, Finished):
            self.finished = event
        else:
            self.text += event.text
            self.annotations += event.annotations
            self.logprobs += event.logprobs
            if event.trace:
                self.traced.append(event)


@dataclass(frozen=True, slots=True)
class Renderer:
    """Renders the answer to one request. ``created`` is in Unix seconds."""

    shape: Shape
    request_id: str
    model: str
    created: int
    plan: Plan
    started: Started
    include_usage: bool = False
    logprobs: bool = False
    trace: bool = False
    _offsets: dict[int, int] = field(default_factory=dict)

    def answer(self, wholes: Sequence[Whole]) -> Json:
        """The one object of an answer that is not streamed."""
        ends = [whole.finished for whole in wholes if whole.finished]
        assert len(ends) == len(wholes)
        choices = [
            self._choice(index, self.shape.whole(whole.text), whole.logprobs, end.reason.value)
            for index, (whole, end) in enumerate(zip(wholes, ends, strict=True))
        ]
        annotations = [
            annotation_object(a, index) for index, whole in enumerate(wholes) for a in whole.annotations
        ]
        tandem = self._tandem(annotations, ends)
        if self.trace:
            tandem["trace"] = [
                step for index, whole in enumerate(wholes) for d in whole.traced for step in _steps(d, index)
            ]
        return {
            **self._envelope(self.shape.answer_object),
            "choices": choices,
            "usage": usage_object([end.usage for end in ends]),
            "tandem": tandem,
        }

    def opening(self, index: int) -> list[Json]:
        """The chunks of a choice before any text."""
        content = self.shape.opening()
        return [] if content is None else [self._chunk([self._choice(index, content)])]

    def delta(self, index: int, delta: Delta) -> list[Json]:
        """No chunk for a delta that only carries tokens: their text comes with a later one."""
        if not (delta.text or delta.annotations or delta.logprobs or delta.trace):
            return []
        chunk = self._chunk([self._choice(index, self.shape.piece(delta.text), delta.logprobs)])
        told = {
            "annotations": [annotation_object(a, index) for a in delta.annotations],
            "trace": _steps(delta, index),
        }
        tandem = {name: objects for name, objects in told.items() if objects}
        return [{**chunk, "tandem": tandem} if tandem else chunk]

    def finish(self, index: int, whole: Whole) -> Json:
        """The last chunk of a choice."""
        assert whole.finished
        chunk = self._chunk([self._choice(index, self.shape.end(), (), whole.finished.reason.value)])
        annotations = [annotation_object(a, index) for a in whole.annotations]
        return {**chunk, "tandem": self._tandem(annotations, [whole.finished])}

    def usage(self, usages: Sequence[Usage]) -> list[Json]:
        """The chunk with usage and no choice, where the client asked for it."""
        return [{**self._chunk([]), "usage": usage_object(usages)}] if self.include_usage else []

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

    def _choice(
        self,
        index: int,
        content: Json,
        tokens: Sequence[TokenLogprobs] = (),
        finish_reason: str | None = None,
    ) -> Json:
        scored = None
        if self.logprobs and tokens:
            offset = self._offsets.get(index, 0)
            scored = self.shape.logprobs(tokens, offset)
            self._offsets[index] = offset + sum(len(logprobs.text(t.chosen)) for t in tokens)
        return {"index": index, **content, "logprobs": scored, "finish_reason": finish_reason}

    def _tandem(self, annotations: Iterable[Json], ends: Sequence[Finished]) -> Json:
        stats = total([end.stats for end in ends])
        tokens = sum(end.usage.completion_tokens for end in ends)
        dropped = {"trace_dropped": sum(end.trace_dropped for end in ends)} if self.trace else {}
        return {
            "prompt_class": self.plan.prompt_class,
            "mode": self.started.mode.value,
            "policy": self.started.policy or LOSSLESS,
            "drafts": [draft.name for draft in self.plan.drafts],
            "speculation": speculation_object(stats),
            "deviation": deviation_object(stats, tokens) if self.started.policy else None,
            "annotations": list(annotations),
            **dropped,
        }


def usage_object(usages: Sequence[Usage]) -> Json:
    """The choices share one prompt; what of it was cached is said of the first."""
    prompt, completion = usages[0].prompt_tokens, sum(usage.completion_tokens for usage in usages)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": usages[0].cached_tokens},
    }


def _steps(delta: Delta, index: int) -> list[Json]:
    return [step_object(delta, delta.trace, index)] if delta.trace else []


def annotation_object(annotation: Annotation, index: int) -> Json:
    return {"choice": index, **asdict(annotation)}


def total(parts: Sequence[SpeculationStats]) -> SpeculationStats:
    """Counter by counter, position by position."""
    sums: Json = {}
    for name in SpeculationStats.__dataclass_fields__:
        values = [getattr(part, name) for part in parts]
        per_position = isinstance(values[0], list)
        sums[name] = [sum(v) for v in zip_longest(*values, fillvalue=0)] if per_position else sum(values)
    return SpeculationStats(**sums)


def speculation_object(stats: SpeculationStats) -> Json:
    """The counters with the two ratios drawn from them, null where nothing was drafted.

    The mean acceptance length counts the token that the target adds to every verified block.
    """
    counters = asdict(stats)
    del counters["strayed_tokens"], counters["nkl_sum"]
    return {
        **counters,
        "mean_acceptance_length": 1 + stats.accepted_tokens / stats.drafts if stats.drafts else None,
        "draft_acceptance_rate": stats.accepted_tokens / stats.draft_tokens if stats.draft_tokens else None,
    }


def deviation_object(stats: SpeculationStats, tokens: int) -> Json:
    """How far a lossy policy went from the target; ``tokens``: delivered in all.

    ``mean_nkl`` is that of the delivered guesses, between 0, as the target would have it, and about 1.
    """
    return {
        "strayed_tokens": stats.strayed_tokens,
        "strayed_share": stats.strayed_tokens / tokens if tokens else None,
        "mean_nkl": stats.nkl_sum / stats.accepted_tokens if stats.accepted_tokens else None,
    }


def model_object(name: str, created: int) -> Json:
    return {"id": name, "object": "model", "created": created, "owned_by": "tandem"}
