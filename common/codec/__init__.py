"""Protobuf messages to dataclasses and back. Defaults for unset fields are resolved here and nowhere else."""

from common.codec.draft import (
    answer_from_proto,
    answer_to_proto,
    block_from_proto,
    block_to_proto,
    update_from_proto,
    update_to_proto,
)
from common.codec.router import plan_from_proto, plan_to_proto, route_from_proto, route_to_proto
from common.codec.shared import (
    endpoints_from_proto,
    endpoints_to_proto,
    fact_check_from_proto,
    mode_from_proto,
    sampling_from_proto,
    sampling_to_proto,
)
from common.codec.verify import (
    event_from_proto,
    event_to_proto,
    generate_from_proto,
    generate_to_proto,
    prompt_from_proto,
    prompt_to_proto,
)

__all__ = [
    "answer_from_proto",
    "answer_to_proto",
    "block_from_proto",
    "block_to_proto",
    "endpoints_from_proto",
    "endpoints_to_proto",
    "event_from_proto",
    "event_to_proto",
    "fact_check_from_proto",
    "generate_from_proto",
    "generate_to_proto",
    "mode_from_proto",
    "plan_from_proto",
    "plan_to_proto",
    "prompt_from_proto",
    "prompt_to_proto",
    "route_from_proto",
    "route_to_proto",
    "sampling_from_proto",
    "sampling_to_proto",
    "update_from_proto",
    "update_to_proto",
]
