"""What the verify service counts. Labels come from fixed sets or are few, so series are bounded."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram, Summary

from verify_service.acceptance.policies import NAMES


class Labels:
    """The first ``most`` of names that somebody else chooses; all others are "other"."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: set[str] = set()

    def of(self, name: str) -> str:
        if len(self._known) < self._most:
            self._known.add(name)
        return name if name in self._known else "other"


_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)

RUNNING = Gauge("tandem_num_requests_running", "Sequences in the batch")
WAITING = Gauge("tandem_num_requests_waiting", "Sequences waiting to join it")
KV_FREE = Gauge(
    "tandem_kv_blocks_free", "KV blocks that belong to no sequence, those of the prefix cache too"
)
KV_FRAGMENTS = Gauge("tandem_kv_fragments", "KV blocks held beyond those that committed tokens need")
PREFIX_QUERIES = Counter("tandem_prefix_cache_queries", "Prompt tokens looked up in the prefix cache")
PREFIX_HITS = Counter("tandem_prefix_cache_hits", "Prompt tokens found there")
PREFIX_EVICTIONS = Counter("tandem_prefix_cache_evictions", "Cached KV blocks given to others")
PREEMPTIONS = Counter("tandem_num_preemptions", "Times a sequence gave up its KV blocks, to be computed anew")
PROMPT_TOKENS = Counter("tandem_prompt_tokens", "Prompt tokens of admitted requests")
GENERATION_TOKENS = Counter("tandem_generation_tokens", "Tokens delivered")
FINISHED = Counter("tandem_requests_finished", "Requests by how they ended", ["reason"])

STEPS = Counter("tandem_verify_steps", "Packed passes")
PASS_SECONDS = Summary(
    "tandem_verify_pass_seconds", "Time of a pass without prefill, by its rows up to a power of two", ["rows"]
)
STEP_SECONDS = Histogram("tandem_verify_step_seconds", "Time of a step by phase", ["phase"], buckets=_SECONDS)

DRAFTS = Counter("tandem_spec_decode_num_drafts", "Blocks verified")
DRAFT_TOKENS = Counter("tandem_spec_decode_num_draft_tokens", "Guesses verified")
ACCEPTED_TOKENS = Counter("tandem_spec_decode_num_accepted_tokens", "Guesses delivered")
ACCEPTED_PER_POSITION = Counter(
    "tandem_spec_decode_num_accepted_tokens_per_pos", "Guesses delivered by position", ["position"]
)
DRAFTED_PER_POSITION = Counter(
    "tandem_spec_decode_num_draft_tokens_per_pos", "Guesses verified by position", ["position"]
)
DRAFTED_PER_SOURCE = Counter(
    "tandem_spec_decode_num_draft_tokens_per_source", "Guesses verified by pool and source", ["source"]
)
ACCEPTED_PER_SOURCE = Counter(
    "tandem_spec_decode_num_accepted_tokens_per_source", "Guesses delivered by pool and source", ["source"]
)

POLICY_REQUESTS = Counter("tandem_policy_requests", "Requests under a lossy policy", ["policy"])
POLICY_TOKENS = Counter(
    "tandem_policy_tokens",
    "Their tokens: the target's choice, or strayed from it",
    ["policy", "kind"],
)
POLICY_NKL = Histogram(
    "tandem_policy_nkl",
    "KL(draft || target) / log(vocabulary) of their guesses that stood",
    ["policy"],
    buckets=(0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.5, 1),
)

BLOCKS = Counter("tandem_draft_blocks", "Blocks received, by what became of them", ["outcome"])
MISSED_WAITS = Counter("tandem_draft_missed_waits", "Wait budgets that ran out")
ROUND_TRIP_SECONDS = Histogram(
    "tandem_draft_round_trip_seconds", "From a commit sent to its block received", buckets=_SECONDS
)
DRAFTING_SECONDS = Histogram(
    "tandem_draft_drafting_seconds", "Time the draft says a block took", buckets=_SECONDS
)
SESSIONS_REFUSED = Counter("tandem_draft_sessions_refused", "Sessions a draft refused", ["code"])

BLOCK_SIZE = Histogram(
    "tandem_draft_block_size",
    "Guesses decided on for the next block; 0: none",
    buckets=(0, 1, 2, 3, 4, 6, 8, 12, 16, 32, 64),
)
SESSIONS_OFF = Gauge("tandem_draft_sessions_off", "Sessions whose drafts do not pay now")
PROBES = Counter("tandem_draft_probes", "Blocks asked for to see whether drafts pay again, by fate", ["fate"])
UNSURE_TOKENS = Counter("tandem_draft_unsure_tokens", "Guesses not verified for want of confidence")
INVALID_TOKENS = Counter("tandem_spec_decode_num_invalid_tokens", "Guesses cut off by validators")
VALIDATOR_OUTCOMES = Counter(
    "tandem_validator_outcomes", "Blocks by what a validator said of them", ["validator", "outcome"]
)

AHEAD = Counter(
    "tandem_draft_ahead",
    "Commits whose draft may go ahead, by whether the next block was there: for all guesses, for others",
    ["outcome"],
)
AHEAD_BLOCKS = Gauge("tandem_draft_ahead_blocks", "Blocks that drafts may send ahead, as far as that pays")

LOOKAHEAD_ROWS = Counter("tandem_lookahead_rows", "Rows of passes that looked ahead instead of being judged")

TAGS = Counter("tandem_fact_check_tags", "Verdicts received, by what became of them", ["outcome"])
FEEDBACK = Counter("tandem_feedback_records", "Records of answers for the router, by fate", ["fate"])
SAMPLES = Counter("tandem_distil_samples", "Answers sampled for training drafts, by fate", ["fate"])

VETOED_TOKENS = Counter("tandem_fact_check_vetoed_tokens", "Drafted tokens not considered because of a flag")
TAGS_MISSING = Counter("tandem_fact_check_tags_missing", "Blocks verified before their verdict came")
TAG_WAIT_SECONDS = Histogram(
    "tandem_fact_check_tag_wait_seconds",
    "What steps with blocks that may be vetoed waited for verdicts",
    buckets=(0.00025, 0.0005, 0.00075, 0.001, 0.00125, 0.0015, 0.002, 0.0025, 0.003, 0.005, 0.01, 0.05, 0.5),
)

SOURCES = Labels(64)
PHASES = ("wait", "model", "accept", "emit")
OUTCOMES = ("verified", "empty", "stale", "watched", "invalid", "unknown_session", "q_mismatch")
PROBE_FATES = ("right", "wrong", "lost")
AHEAD_OUTCOMES = ("full", "other", "late", "missed")
ROWS = tuple(str(2**power) for power in range(13))
REFUSALS = ("fingerprint_mismatch", "overloaded", "out_of_sync", "other")


def observe_pass(rows: int, seconds: float) -> None:
    """A pass over so many rows, none of them prefill."""
    PASS_SECONDS.labels(ROWS[min((rows - 1).bit_length(), len(ROWS) - 1)]).observe(seconds)


def start_at_zero(positions: int) -> None:
    """Make every labelled series exist before its first event."""
    for phase in PHASES:
        STEP_SECONDS.labels(phase)
    for outcome in OUTCOMES:
        BLOCKS.labels(outcome)
    for fate in PROBE_FATES:
        PROBES.labels(fate)
    for outcome in AHEAD_OUTCOMES:
        AHEAD.labels(outcome)
    for fate in ("sent", "dropped", "failed"):
        FEEDBACK.labels(fate)
        SAMPLES.labels(fate)
    for code in REFUSALS:
        SESSIONS_REFUSED.labels(code)
    for outcome in ("delivered", "late", "unwatched", "malformed"):
        TAGS.labels(outcome)
    for policy in NAMES:
        POLICY_REQUESTS.labels(policy)
        POLICY_NKL.labels(policy)
        for kind in ("target", "strayed"):
            POLICY_TOKENS.labels(policy, kind)
    for reason in ("stop", "length", "cancelled", "error"):
        FINISHED.labels(reason)
    for position in range(positions):
        ACCEPTED_PER_POSITION.labels(str(position))
        DRAFTED_PER_POSITION.labels(str(position))
