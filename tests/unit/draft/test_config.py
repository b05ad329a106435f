from __future__ import annotations

import pytest

from common.config import load
from common.errors import ConfigError
from draft_service.config import Config


def test_the_defaults_need_no_variable() -> None:
    config = load(Config, "draft", {})
    assert (config.source, config.port, config.redis_url) == ("ngram", 50053, "")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SOURCE", "oracle"),
        ("SOURCE", "ngram,oracle"),
        ("SOURCE", "ngram,,self"),
        ("SOURCE", "ngram,ngram"),
        ("SOURCE", ""),
        ("POOL", "all"),
        ("CASCADE_TINY", "cascade"),
        ("CASCADE_TINY", "self"),
        ("CASCADE_MIDDLE", "ngram"),
        ("CASCADE_THRESHOLD", "1.5"),
        ("PORT", "65536"),
        ("METRICS_PORT", "-1"),
        ("WEIGHTS", "int2"),
        ("THREADS", "-1"),
        ("LAYERS", "0"),
        ("MAX_NGRAM", "0"),
        ("MIN_NGRAM", "17"),
        ("KV_TOKENS", "63"),
        ("PREFILL_TOKENS", "15"),
        ("MAX_SESSIONS", "0"),
        ("DRAIN_SECONDS", "nan"),
        ("LOG_LEVEL", "loud"),
        ("MODLE", "x"),
    ],
)
def test_a_bad_value_is_refused_by_the_name_of_its_variable(name: str, value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(Config, "draft", {f"TANDEM_DRAFT_{name}": value})
    assert caught.value.field == f"TANDEM_DRAFT_{name}"


def test_a_shortest_tail_above_the_longest_is_refused() -> None:
    with pytest.raises(ConfigError, match="TANDEM_DRAFT_MIN_NGRAM"):
        load(Config, "draft", {"TANDEM_DRAFT_MIN_NGRAM": "5", "TANDEM_DRAFT_MAX_NGRAM": "2"})


def test_a_redis_that_has_no_such_address_is_refused() -> None:
    with pytest.raises(ConfigError, match="TANDEM_DRAFT_REDIS_URL"):
        load(Config, "draft", {"TANDEM_DRAFT_REDIS_URL": "http://localhost"})


@pytest.mark.parametrize("given", [{"SOURCE": "model"}, {"SOURCE": "cascade", "CASCADE_MIDDLE": "model"}])
def test_a_smaller_model_that_is_needed_must_be_named(given: dict[str, str]) -> None:
    variables = {f"TANDEM_DRAFT_{name}": value for name, value in given.items()}
    with pytest.raises(ConfigError, match="TANDEM_DRAFT_DRAFT_MODEL"):
        load(Config, "draft", variables)
    assert load(Config, "draft", variables | {"TANDEM_DRAFT_DRAFT_MODEL": "x"}).draft_model == "x"


def test_several_sources_are_names_joined_by_commas() -> None:
    assert load(Config, "draft", {"TANDEM_DRAFT_SOURCE": "ngram, self"}).sources == ("ngram", "self")
