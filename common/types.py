"""The dataclasses that engines speak; ``codec`` turns them into protobuf messages and back."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from common import trees
from common.constraint import Constraint
from common.errors import InvalidRequest
from common.trace import TraceStep

LONGEST_CACHE_SALT = 256
MOST_LOGPROBS = 20
MOST_VALIDATORS = 8
LOSSLESS = "lossless"


class Mode(enum.Enum):
    """How a drafted token is judged in lossless verification."""

    REJECTION = "rejection"
    KEYED = "keyed"


class FactCheck(enum.Enum):
    OFF = "off"
    ANNOTATE = "annotate"
    VETO = "veto"


class Origin(enum.Enum):
    """Who wrote a delivered token."""

    TARGET = "target"
    DRAFT = "draft"
    CORRECTED = "corrected"
    BONUS = "bonus"


class FinishReason(enum.Enum):
    STOP = "stop"
    LENGTH = "length"


def _require(condition: bool, field_name: str, rule: str) -> None:
    if not condition:
        raise InvalidRequest(f"{field_name} must be {rule}", field=field_name)


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How the next token is drawn from the target's logits. Temperature 0 is greedy.

    Raises:
        InvalidRequest: naming the first field out of range.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    logit_bias: Mapping[int, float] = field(default_factory=lambda: MappingProxyType({}))
    seed: int | None = None

    def __post_init__(self) -> None:
        _require(0 <= self.temperature <= 2, "temperature", "between 0 and 2")
        _require(self.top_k >= 0, "top_k", "0 (off) or more")
        _require(0 < self.top_p <= 1, "top_p", "above 0 and at most 1")
        _require(0 <= self.min_p <= 1, "min_p", "between 0 and 1")
        _require(0 < self.repetition_penalty <= 10, "repetition_penalty", "above 0 and at most 10")
        _require(-2 <= self.frequency_penalty <= 2, "frequency_penalty", "between -2 and 2")
        _require(-2 <= self.presence_penalty <= 2, "presence_penalty", "between -2 and 2")
        _require(
            all(-100 <= bias <= 100 for bias in self.logit_bias.values()),
            "logit_bias",
            "a map of token ids to numbers between -100 and 100",
        )
        _require(
            self.seed is None or -(2**63) <= self.seed < 2**63,
            "seed",
            "a signed integer of at most 64 bits",
        )

    @property
    def greedy(self) -> bool:
        return self.temperature == 0

    @property
    def penalised(self) -> bool:
        return (self.repetition_penalty, self.frequency_penalty, self.presence_penalty) != (1.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class DraftEndpoint:
    """A pool's name from configuration and a replica's ``host:port``."""

    name: str
    address: str


@dataclass(frozen=True, slots=True)
class Message:
    role: str
    content: str


Prompt = tuple[Message, ...] | str | list[int]
"""A conversation for the chat template, a text, or token ids."""


@dataclass(frozen=True, slots=True)
class Stopping:
    """When an answer ends. ``max_tokens`` None: at the end of the context.

    Before ``min_tokens`` no token that could end it is chosen, and no stop string is looked for.
    """

    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    stop_token_ids: frozenset[int] = frozenset()
    ignore_eos: bool = False
    min_tokens: int = 0

    def __post_init__(self) -> None:
        _require(self.max_tokens is None or self.max_tokens > 0, "max_tokens", "1 or more")
        _require(0 <= self.min_tokens <= (self.max_tokens or 1 << 31), "min_tokens", "0 to max_tokens")
        _require(all(self.stop), "stop", "a list of non-empty strings")


@dataclass(frozen=True, slots=True)
class PolicyChoice:
    """A lossy acceptance policy by name; parameters that are not given have its defaults."""

    name: str
    parameters: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class ValidatorChoice:
    """A validator of drafted text by name, with what it wants to know."""

    name: str
    options: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class SpeculationParams:
    """How drafts are used.

    ``mode`` None: keyed with a seed or a veto, else rejection. ``block_size`` and ``tree_width``, the most
    guesses after the same text, None: the deployment's. ``policy`` None: the deployment's, too; ``LOSSLESS``
    takes none. With a policy a guess may stand that the target would not have chosen. ``trace``: every delta
    says how its tokens came to be.

    Refusing a guess for a reason other than the target's own choice would bias rejection sampling, so a veto
    needs the mode in which the choice is the target's whatever was drafted. Facts are checked in chains.
    """

    disabled: bool = False
    mode: Mode | None = None
    block_size: int | None = None
    tree_width: int | None = None
    fact_check: FactCheck = FactCheck.OFF
    policy: PolicyChoice | None = None
    validators: tuple[ValidatorChoice, ...] = ()
    trace: bool = False

    def __post_init__(self) -> None:
        lossy = self.policy is not None and self.policy.name != LOSSLESS
        _require(not (lossy and self.mode), "speculation.mode", "unset when speculation.policy is lossy")
        few = len(self.validators) <= MOST_VALIDATORS
        _require(few, "speculation.validators", f"at most {MOST_VALIDATORS}")
        vetoed_rejection = self.fact_check is FactCheck.VETO and self.mode is Mode.REJECTION
        _require(not vetoed_rejection, "speculation.mode", "keyed when speculation.fact_check is veto")
        width = 1 if self.tree_width is None else self.tree_width
        _require(1 <= width <= trees.MAX_WIDTH, "speculation.tree_width", f"between 1 and {trees.MAX_WIDTH}")
        checked_tree = width > 1 and self.fact_check is not FactCheck.OFF
        _require(not checked_tree, "speculation.tree_width", "1 when speculation.fact_check is on")


@dataclass(frozen=True, slots=True)
class Terms:
    """How the router wants a request drafted.

    Attributes:
        prompt_class: what it takes the request for; results are reported back under this name.
        largest_block: most guesses of a block; 0: no limit but the deployment's.
        shadow: guesses are compared with the answer and never verified, so they cost a step nothing.
    """

    prompt_class: str = ""
    largest_block: int = 0
    shadow: bool = False


@dataclass(frozen=True, slots=True)
class GenerateRequest:
    """
    Attributes:
        cache_salt: cached prefixes are shared only among requests with the same one.
        top_logprobs: the likeliest tokens reported beside each token; None: no log-probabilities at all.
    """

    request_id: str
    prompt: Prompt
    sampling: SamplingParams = SamplingParams()
    stopping: Stopping = Stopping()
    speculation: SpeculationParams = SpeculationParams()
    drafts: tuple[DraftEndpoint, ...] = ()
    cache_salt: str = ""
    constraint: Constraint | None = None
    top_logprobs: int | None = None
    terms: Terms = Terms()

    def __post_init__(self) -> None:
        short = len(self.cache_salt) <= LONGEST_CACHE_SALT
        _require(short, "cache_salt", f"at most {LONGEST_CACHE_SALT} characters")
        _require(0 <= (self.top_logprobs or 0) <= MOST_LOGPROBS, "top_logprobs", f"0 to {MOST_LOGPROBS}")


@dataclass(frozen=True, slots=True)
class Started:
    model: str
    prompt_tokens: int
    mode: Mode
    system_fingerprint: str
    policy: str = ""


@dataclass(frozen=True, slots=True)
class Provenance:
    origin: Origin
    source: str = ""


@dataclass(frozen=True, slots=True)
class Annotation:
    """A flag on ``token_count`` output tokens from ``first_token``."""

    first_token: int
    token_count: int
    text: str
    verdict: str
    rule: str
    evidence: str


@dataclass(frozen=True, slots=True)
class ScoredToken:
    """``logprob``: natural, from the target's raw logits. ``text``: not always whole characters."""

    token_id: int
    logprob: float
    text: bytes


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    chosen: ScoredToken
    top: tuple[ScoredToken, ...] = ()


@dataclass(frozen=True, slots=True)
class Delta:
    """Tokens as they are committed; ``text`` may lag behind them. ``logprobs`` is aligned, or empty.

    ``trace``: of the step that yielded them; None: none was asked for, or it is beyond what is kept.
    """

    token_ids: tuple[int, ...] = ()
    provenance: tuple[Provenance, ...] = ()
    text: str = ""
    annotations: tuple[Annotation, ...] = ()
    logprobs: tuple[TokenLogprobs, ...] = ()
    trace: TraceStep | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """``cached_tokens``: those of the prompt that were found in the prefix cache."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0


@dataclass(slots=True)
class SpeculationStats:
    """Counters of one answer, as vLLM's of the same names; a position in a tree is a depth.

    ``strayed_tokens`` and ``nkl_sum`` say how far a lossy policy went from the target: delivered guesses that
    it would not have chosen, and the sum over all delivered guesses of KL(draft ‖ target) / log(vocabulary).
    ``invalid_tokens`` are guesses that validators cut off.
    """

    steps: int = 0
    drafts: int = 0
    draft_tokens: int = 0
    accepted_tokens: int = 0
    accepted_per_position: list[int] = field(default_factory=list)
    drafted_per_position: list[int] = field(default_factory=list)
    missed_waits: int = 0
    vetoed_tokens: int = 0
    tags_missing: int = 0
    strayed_tokens: int = 0
    nkl_sum: float = 0.0
    invalid_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Finished:
    """``trace_dropped``: steps that the trace leaves out, as it was full."""

    reason: FinishReason
    usage: Usage
    stats: SpeculationStats
    trace_dropped: int = 0


GenerateEvent = Started | Delta | Finished


@dataclass(frozen=True, slots=True)
class RouteRequest:
    """
    Attributes:
        head: at most the first 200 characters of the last user turn.
        prefix_key: equal for prompts that begin alike; empty: not known.
        avoid: verify addresses that just failed this request.
    """

    request_id: str
    model: str
    head: str
    prompt_characters: int
    speculation_disabled: bool = False
    prefix_key: str = ""
    avoid: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """Who serves one request, decided once. ``largest_block`` and ``shadow``: see ``Terms``."""

    prompt_class: str
    verify_address: str
    drafts: tuple[DraftEndpoint, ...]
    reason: str
    largest_block: int = 0
    shadow: bool = False

    @property
    def terms(self) -> Terms:
        return Terms(self.prompt_class, self.largest_block, self.shadow)
