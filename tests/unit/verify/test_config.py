"""The service's variables: good ones apply, bad ones are named."""

from __future__ import annotations

import pytest

from common.config import load
from common.errors import ConfigError
from common.types import PolicyChoice
from verify_service.config import Config


def configured(**values: str) -> Config:
    return load(Config, "verify", {f"TANDEM_VERIFY_{name}": value for name, value in values.items()})


def test_the_defaults_need_no_variables_and_other_services_variables_are_not_ours() -> None:
    assert load(Config, "verify", {"TANDEM_DRAFT_PORT": "x", "HOME": "/"}) == Config()


def test_good_values_apply() -> None:
    config = configured(
        PORT="0", KV_TOKENS="1024", DRAFT_WAIT_MS="12.5", WEIGHTS="bfloat16", REDIS_URL="redis://x:1/0"
    )
    assert (config.port, config.kv_tokens, config.draft_wait_ms) == (0, 1024, 12.5)
    assert (config.weights, config.redis_url) == ("bfloat16", "redis://x:1/0")
    assert [configured(PREFIX_CACHING=value).prefix_caching for value in ("true", "0")] == [True, False]


def test_a_policy_is_a_name_or_an_object_with_parameters() -> None:
    assert configured().default_policy == PolicyChoice("lossless")
    assert configured(POLICY="strict").default_policy == PolicyChoice("strict")
    written = '{"name": "kl", "delta": 0.2, "probabilistic": true}'
    assert configured(POLICY=written).default_policy == PolicyChoice("kl", {"delta": 0.2, "probabilistic": 1})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PORT", "65536"),
        ("PORT", "-1"),
        ("PORT", "http"),
        ("METRICS_PORT", "1.5"),
        ("WEIGHTS", "int2"),
        ("THREADS", "-1"),
        ("KV_TOKENS", "63"),
        ("PREFIX_CACHING", "sometimes"),
        ("MAX_RUNNING", "0"),
        ("MAX_WAITING", "0"),
        ("MAX_BATCH_TOKENS", "15"),
        ("BLOCK_SIZE", "0"),
        ("BLOCK_SIZE", "65"),
        ("MAX_BLOCK_SIZE", "65"),
        ("CONTROLLER", "best"),
        ("POLICY", "loose"),
        ("POLICY", "{"),
        ("POLICY", '{"delta": 0.2}'),
        ("POLICY", '{"name": "kl", "delta": 3}'),
        ("POLICY", '{"name": "kl", "delta": "wide"}'),
        ("LOOKAHEAD_WINDOW", "-1"),
        ("LOOKAHEAD_WINDOW", "33"),
        ("LOOKAHEAD_NGRAM", "2"),
        ("LOOKAHEAD_NGRAM", "9"),
        ("MIN_BATCH", "0"),
        ("MAX_BATCH", "-1"),
        ("MIN_CONFIDENCE", "1.1"),
        ("MIN_CONFIDENCE", "nan"),
        ("DRAFT_WAIT_MS", "-1"),
        ("DRAFT_WAIT_MS", "nan"),
        ("DRAFT_WAIT_MS", "inf"),
        ("TAG_WAIT_MS", "60001"),
        ("SETTLE_WAIT_MS", ""),
        ("DRAIN_SECONDS", "-0.1"),
        ("LOG_LEVEL", "loud"),
        ("REDIS_URL", "{"),
        ("UNHEARD_OF", "1"),
    ],
)
def test_a_bad_value_stops_the_service_and_names_the_variable(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=f"TANDEM_VERIFY_{name}") as refused:
        configured(**{name: value})
    assert refused.value.field == f"TANDEM_VERIFY_{name}"


@pytest.mark.parametrize("host", ["::", "[::]", "[::1]", "0.0.0.0"])
def test_a_host_may_be_an_ipv6_address_in_brackets(host: str) -> None:
    assert configured(HOST=host).host == host


@pytest.mark.parametrize(
    ("model", "name", "served"),
    [
        ("smollm2", "", "smollm2"),
        ("/models/big/", "", "big"),
        ("org/model", "", "model"),
        ("org/model", "mine", "mine"),
    ],
)
def test_clients_call_the_model_by_its_name_or_the_last_part_of_its_path(
    model: str, name: str, served: str
) -> None:
    assert configured(MODEL=model, MODEL_NAME=name).served_name == served


def test_the_fewest_running_with_drafts_may_not_exceed_the_most() -> None:
    assert configured(MIN_BATCH="4").max_batch == 0
    assert configured(MIN_BATCH="4", MAX_BATCH="4").max_batch == 4
    with pytest.raises(ConfigError, match=r"MIN_BATCH \(5\) exceeds TANDEM_VERIFY_MAX_BATCH \(4\)"):
        configured(MIN_BATCH="5", MAX_BATCH="4")
