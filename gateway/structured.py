"""What a body's ``response_format`` or ``structured_outputs`` asks of the answer's form."""

from __future__ import annotations

import json
from collections.abc import Iterator

from common.constraint import Constraint, ConstraintKind
from common.errors import InvalidRequest
from gateway.schema import GenerationBody, ResponseFormat, StructuredOutputs

_ANY_OBJECT = '{"type": "object"}'


def constraint(body: GenerationBody) -> Constraint | None:
    """Raises InvalidRequest when both are given, one is incomplete or several at once."""
    formatted = _from_format(body.response_format) if body.response_format else None
    structured = _from_structured(body.structured_outputs) if body.structured_outputs else None
    if formatted and structured:
        raise InvalidRequest(
            "structured_outputs and response_format exclude each other", field="structured_outputs"
        )
    return formatted or structured


def _from_format(asked: ResponseFormat) -> Constraint | None:
    if asked.type != "json_schema" and asked.json_schema is not None:
        field = "response_format.json_schema"
        raise InvalidRequest(f"{field} goes with the type json_schema", field=field)
    match asked.type:
        case "text":
            return None
        case "json_object":
            return Constraint(ConstraintKind.JSON_SCHEMA, _ANY_OBJECT, "response_format")
        case "json_schema" if asked.json_schema:
            text = json.dumps(asked.json_schema.schema_)
            return Constraint(ConstraintKind.JSON_SCHEMA, text, "response_format.json_schema.schema")
        case _:
            field = "response_format.json_schema"
            raise InvalidRequest(f"{field} is required", field=field)


def _from_structured(asked: StructuredOutputs) -> Constraint:
    given = list(_given(asked))
    if len(given) != 1:
        names = ", ".join(StructuredOutputs.model_json_schema()["properties"])
        raise InvalidRequest(f"structured_outputs takes exactly one of {names}", field="structured_outputs")
    return given[0]


def _given(asked: StructuredOutputs) -> Iterator[Constraint]:
    if asked.json_ is not None:
        text = asked.json_ if isinstance(asked.json_, str) else json.dumps(asked.json_)
        yield Constraint(ConstraintKind.JSON_SCHEMA, text, "structured_outputs.json")
    if asked.regex is not None:
        yield Constraint(ConstraintKind.REGEX, asked.regex, "structured_outputs.regex")
    if asked.choice is not None:
        yield Constraint(ConstraintKind.CHOICE, json.dumps(asked.choice), "structured_outputs.choice")
    if asked.grammar is not None:
        yield Constraint(ConstraintKind.GRAMMAR, asked.grammar, "structured_outputs.grammar")
    if asked.json_object:
        yield Constraint(ConstraintKind.JSON_SCHEMA, _ANY_OBJECT, "structured_outputs.json_object")
