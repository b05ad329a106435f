"""The environment is parsed once, checked whole, and a wrong variable is named."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import pytest
from pydantic import Field

from common.config import load, load_or_exit
from common.errors import ConfigError


@dataclass(frozen=True)
class Example:
    address: str
    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 1
    ratio: Annotated[float, Field(gt=0, le=1)] = 0.5
    verbose: bool = False
    colour: Literal["red", "green"] = "red"
    names: Annotated[tuple[str, ...], Field(min_length=1)] = ("a",)
    weights: dict[str, float] | None = None

    def __post_init__(self) -> None:
        if self.host == self.address:
            raise ConfigError("TANDEM_EXAMPLE_HOST is the peer's address", field="TANDEM_EXAMPLE_HOST")


def loaded(**values: str) -> Example:
    given = {"ADDRESS": "peer:1"} | values
    return load(Example, "example", {f"TANDEM_EXAMPLE_{name}": value for name, value in given.items()})


def test_what_is_not_given_has_its_default() -> None:
    assert loaded() == Example("peer:1")


def test_numbers_and_booleans_are_read_from_their_text() -> None:
    config = loaded(PORT="8", RATIO="0.25", VERBOSE="true", COLOUR="green")
    assert (config.port, config.ratio, config.verbose, config.colour) == (8, 0.25, True, "green")


def test_a_list_is_written_as_json() -> None:
    assert loaded(NAMES='["x", "y"]').names == ("x", "y")


def test_a_mapping_is_written_as_json() -> None:
    assert loaded(WEIGHTS='{"x": 1, "y": 0.5}').weights == {"x": 1.0, "y": 0.5}


def test_a_plain_string_may_be_empty_or_hold_spaces() -> None:
    assert loaded(HOST="").host == ""
    assert loaded(HOST=" a b ").host == " a b "


def test_a_plain_string_that_begins_with_a_bracket_is_not_taken_for_json() -> None:
    assert loaded(HOST="[::1]").host == "[::1]"


def test_variables_of_other_services_are_none_of_ours() -> None:
    environ = {"TANDEM_EXAMPLE_ADDRESS": "a", "TANDEM_OTHER_PORT": "x", "PORT": "y", "TANDEM_EXAMPLES": "z"}
    assert load(Example, "example", environ) == Example("a")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PORT", "http"),
        ("PORT", ""),
        ("PORT", "1.5"),
        ("PORT", "-1"),
        ("PORT", "70000"),
        ("PORT", "[1]"),
        ("RATIO", "nan"),
        ("RATIO", "inf"),
        ("RATIO", "0"),
        ("RATIO", "half"),
        ("VERBOSE", "maybe"),
        ("COLOUR", "blue"),
        ("COLOUR", "RED"),
        ("NAMES", "x"),
        ("NAMES", "[]"),
        ("NAMES", "[1]"),
        ("NAMES", '["x"'),
        ("NAMES", '{"x": 1}'),
        ("WEIGHTS", '{"x": "heavy"}'),
        ("WEIGHTS", "{x: 1}"),
        ("HOST", "peer:1"),
    ],
)
def test_a_bad_value_is_refused_by_the_name_of_its_variable(name: str, value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        loaded(**{name: value})
    assert caught.value.field == f"TANDEM_EXAMPLE_{name}"
    assert f"TANDEM_EXAMPLE_{name}" in caught.value.message


def test_a_variable_that_must_be_given_is_named_when_it_is_not() -> None:
    with pytest.raises(ConfigError, match="TANDEM_EXAMPLE_ADDRESS"):
        load(Example, "example", {})


def test_an_unknown_variable_is_refused_by_name_and_the_known_ones_are_listed() -> None:
    with pytest.raises(ConfigError) as caught:
        loaded(PROT="1")
    assert caught.value.field == "TANDEM_EXAMPLE_PROT"
    assert "TANDEM_EXAMPLE_PORT" in caught.value.message


def test_a_service_of_two_words_has_them_in_its_prefix() -> None:
    assert load(Example, "fact_check", {"TANDEM_FACT_CHECK_ADDRESS": "a"}) == Example("a")


def test_a_service_with_a_bad_variable_exits_with_status_2_and_says_so_on_standard_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TANDEM_EXAMPLE_ADDRESS", "peer:1")
    monkeypatch.setenv("TANDEM_EXAMPLE_PORT", "many")
    with pytest.raises(SystemExit) as caught:
        load_or_exit(Example, "example")
    captured = capsys.readouterr()
    assert caught.value.code == 2
    assert captured.err.startswith("example: TANDEM_EXAMPLE_PORT")
    assert captured.out == ""


def test_a_service_with_good_variables_gets_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TANDEM_EXAMPLE_ADDRESS", "peer:1")
    monkeypatch.setenv("TANDEM_EXAMPLE_PORT", "9")
    assert load_or_exit(Example, "example") == Example("peer:1", port=9)
