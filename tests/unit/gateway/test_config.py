from __future__ import annotations

import pytest

from common.config import load
from common.errors import ConfigError
from gateway.config import Config


def test_the_defaults_need_no_variable() -> None:
    config = load(Config, "gateway", {})
    assert (config.port, config.router_address) == (8000, "127.0.0.1:50051")
    assert config.models == ("smollm2-135m-instruct",)


def test_variables_set_their_fields() -> None:
    environ = {
        "TANDEM_GATEWAY_PORT": "9000",
        "TANDEM_GATEWAY_MODELS": '["a", "b/c"]',
        "TANDEM_GATEWAY_DRAIN_SECONDS": "0.5",
        "TANDEM_ROUTER_PORT": "1",
    }
    config = load(Config, "gateway", environ)
    assert (config.port, config.models, config.drain_seconds) == (9000, ("a", "b/c"), 0.5)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PORT", "70000"),
        ("PORT", "http"),
        ("MODELS", "[]"),
        ("MODELS", "one"),
        ("MODELS", '[""]'),
        ("ROUTER_ADDRESS", ""),
        ("MAX_BODY_BYTES", "0"),
        ("MAX_BODY_BYTES", str(16 << 20)),
        ("MAX_CONCURRENT", "0"),
        ("REQUEST_TIMEOUT_SECONDS", "0"),
        ("ROUTE_TIMEOUT_SECONDS", "nan"),
        ("DRAIN_SECONDS", "-1"),
        ("LOG_LEVEL", "loud"),
        ("TYPO", "1"),
    ],
)
def test_a_bad_value_names_its_variable(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=f"TANDEM_GATEWAY_{name}"):
        load(Config, "gateway", {f"TANDEM_GATEWAY_{name}": value})
