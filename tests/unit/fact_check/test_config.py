from __future__ import annotations

import pytest

from common.config import load
from common.errors import ConfigError
from fact_check_service.config import Config


def test_the_defaults_are_complete_and_name_the_consumer_after_host_and_process() -> None:
    config = load(Config, "fact_check", {})
    assert config.batch_size == 64
    assert config.consumer.rsplit("-", 1)[1].isdigit()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TANDEM_FACT_CHECK_REDIS_URL", "http://localhost"),
        ("TANDEM_FACT_CHECK_BATCH_SIZE", "0"),
        ("TANDEM_FACT_CHECK_READ_BLOCK_MS", "0"),
        ("TANDEM_FACT_CHECK_CLAIM_EVERY_SECONDS", "nan"),
        ("TANDEM_FACT_CHECK_METRICS_PORT", "70000"),
        ("TANDEM_FACT_CHECK_LOG_LEVEL", "loud"),
        ("TANDEM_FACT_CHECK_COLOUR", "red"),
    ],
)
def test_a_bad_variable_is_named(name: str, value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(Config, "fact_check", {name: value})
    assert caught.value.field == name


@pytest.mark.parametrize("by", [{"CHECK_MS": "2500"}, {"BATCH_SIZE": "1000"}, {"CLAIM_IDLE_MS": "1320"}])
def test_entries_are_not_taken_over_while_the_slowest_batch_is_checked(by: dict[str, str]) -> None:
    with pytest.raises(ConfigError) as caught:
        load(Config, "fact_check", {f"TANDEM_FACT_CHECK_{name}": value for name, value in by.items()})
    assert caught.value.field == "TANDEM_FACT_CHECK_CLAIM_IDLE_MS"
    assert "TANDEM_FACT_CHECK_CLAIM_IDLE_MS" in caught.value.message


def test_a_take_over_just_after_the_slowest_batch_is_allowed() -> None:
    assert load(Config, "fact_check", {"TANDEM_FACT_CHECK_CLAIM_IDLE_MS": "1321"}).slowest_batch_ms == 1320
