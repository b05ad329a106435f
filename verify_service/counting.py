"""What became of a step's guesses, counted for the answer and for the service."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence as Seq

from common import trees
from common.draft_types import Block
from common.types import SpeculationStats
from verify_service import metrics
from verify_service.acceptance.lossy import Deviation
from verify_service.scheduler import Work
from verify_service.sequence import Sequence


def count_step(item: Work, nodes: Seq[int], delivered: int) -> None:
    """``nodes``: the guesses that were delivered, of the tokens that were."""
    stats, guesses = item.sequence.stats, len(item.guesses)
    stats.steps += 1
    metrics.GENERATION_TOKENS.inc(delivered)
    if item.block is None or not guesses:
        return
    stats.drafts += 1
    stats.draft_tokens += guesses
    stats.accepted_tokens += len(nodes)
    metrics.BLOCKS.labels("verified").inc()
    metrics.DRAFTS.inc()
    metrics.DRAFT_TOKENS.inc(guesses)
    metrics.ACCEPTED_TOKENS.inc(len(nodes))
    _count_by_position(stats, item.block, len(nodes))
    _count_by_source(item.block, nodes)


def count_deviations(sequence: Sequence, deviations: Seq[Deviation], delivered: int) -> None:
    """How far the policy strayed with the guesses that were delivered, among so many tokens."""
    if sequence.policy is None:
        return
    name, strayed = sequence.policy.name, sum(deviation.strayed for deviation in deviations)
    sequence.stats.strayed_tokens += strayed
    sequence.stats.nkl_sum += sum(deviation.nkl for deviation in deviations)
    metrics.POLICY_TOKENS.labels(name, "strayed").inc(strayed)
    metrics.POLICY_TOKENS.labels(name, "target").inc(delivered - strayed)
    for deviation in deviations:
        metrics.POLICY_NKL.labels(name).observe(deviation.nkl)


def _count_by_position(stats: SpeculationStats, block: Block, accepted: int) -> None:
    drafted = Counter(trees.depths(block.tree))
    missing = len(drafted) - len(stats.drafted_per_position)
    stats.drafted_per_position += [0] * missing
    stats.accepted_per_position += [0] * missing
    for position, count in drafted.items():
        stats.drafted_per_position[position] += count
        stats.accepted_per_position[position] += position < accepted
        metrics.DRAFTED_PER_POSITION.labels(str(position)).inc(count)
        metrics.ACCEPTED_PER_POSITION.labels(str(position)).inc(position < accepted)


def _count_by_source(block: Block, nodes: Seq[int]) -> None:
    accepted = Counter(block.source_of(node) for node in nodes)
    for source, count in Counter(map(block.source_of, range(len(block.token_ids)))).items():
        label = metrics.SOURCES.of(source)
        metrics.DRAFTED_PER_SOURCE.labels(label).inc(count)
        metrics.ACCEPTED_PER_SOURCE.labels(label).inc(accepted[source])
