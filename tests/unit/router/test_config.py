from __future__ import annotations

import json

import pytest

from common import config
from common.errors import ConfigError
from router.config import RouterConfig

VERIFY = json.dumps(["10.0.0.1:50052"])
DRAFTS = json.dumps({"ngram": ["10.0.0.2:50053"], "model": ["10.0.0.3:50053"]})


def load(**variables: str) -> RouterConfig:
    given = {"VERIFY": VERIFY, "DRAFTS": DRAFTS} | variables
    return config.load(
        RouterConfig, "router", {f"TANDEM_ROUTER_{name}": text for name, text in given.items()}
    )


def test_it_reads_addresses_pools_and_classes_from_json() -> None:
    settings = load(CLASSES='{"code": ["model", "ngram"], "chat": []}', POLL_SECONDS="0.5")
    assert settings.verify == ("10.0.0.1:50052",)
    assert settings.drafts == {"ngram": ("10.0.0.2:50053",), "model": ("10.0.0.3:50053",)}
    assert settings.classes == {"code": ("model", "ngram"), "chat": ()}
    assert settings.poll_seconds == 0.5


def test_the_defaults_are_those_of_the_documentation() -> None:
    settings = load()
    assert (settings.port, settings.metrics_port) == (50051, 9101)
    assert settings.poll_seconds == 1.0
    assert settings.discovery == "static"
    assert (settings.breaker_failures, settings.breaker_open_seconds) == (3, 2.0)
    assert (settings.breaker_slow_seconds, settings.breaker_window) == (0.5, 10)
    assert settings.breaker_max_ejected == 0.5
    assert settings.max_drafts_per_plan == 2


def test_pools_without_replicas_and_a_router_without_drafts_are_allowed() -> None:
    assert load(DRAFTS='{"ngram": []}').drafts == {"ngram": ()}
    assert load(DRAFTS="{}").drafts == {}


def test_ipv6_addresses_are_written_in_brackets() -> None:
    assert load(VERIFY='["[::1]:50052"]').verify == ("[::1]:50052",)


@pytest.mark.parametrize(
    ("variable", "text", "says"),
    [
        ("VERIFY", "[]", "at least 1"),
        ("DISCOVERY", "consul", "'static', 'dns' or 'kubernetes'"),
        ("DNS_SECONDS", "1", "only the discovery dns uses it"),
        ("KUBERNETES_NAMESPACE", "tandem", "only the discovery kubernetes uses it"),
        ("KUBERNETES_POOL_LABEL", "pool", "only the discovery kubernetes uses it"),
        ("KUBERNETES_SELECTOR", "app=tandem", "only the discovery kubernetes uses it"),
        ("KUBERNETES_CONFIG", "/etc/kubeconfig", "only the discovery kubernetes uses it"),
        ("VERIFY", '["10.0.0.1"]', "'10.0.0.1' is not host:port"),
        ("VERIFY", '[":50052"]', "not host:port"),
        ("VERIFY", '["host:0"]', "not host:port"),
        ("VERIFY", '["host:65536"]', "not host:port"),
        ("VERIFY", '["host:http"]', "not host:port"),
        ("VERIFY", '["a host:50052"]', "not host:port"),
        ("VERIFY", '["::1:50052"]', "not host:port"),
        ("VERIFY", '["host:1", "host:1"]', "host:1 is given twice"),
        ("VERIFY", "host:1", "valid tuple"),
        ("VERIFY", '["host:1"', "not JSON"),
        ("DRAFTS", '{"ngram": ["10.0.0.2"]}', "not host:port"),
        ("DRAFTS", '{"a": ["host:1"], "b": ["host:1"]}', "given twice"),
        ("DRAFTS", '{"ngram": ["10.0.0.1:50052"]}', "given twice"),
        ("DRAFTS", '{"verify": ["host:1"]}', "cannot be the name"),
        ("DRAFTS", '{"": ["host:1"]}', "cannot be the name"),
        ("CLASSES", '{"poetry": ["ngram"]}', "unknown class 'poetry'; known are short_qa"),
        ("CLASSES", '{"code": ["eagle"]}', "code names the unknown pool 'eagle'"),
        ("CLASSES", '{"code": ["ngram", "ngram"]}', "twice"),
        ("PORT", "65536", "less than or equal to 65535"),
        ("POLL_SECONDS", "0", "greater than 0"),
        ("BREAKER_FAILURES", "0", "greater than or equal to 1"),
        ("BREAKER_SLOW_SECONDS", "0", "greater than 0"),
        ("BREAKER_WINDOW", "0", "greater than or equal to 1"),
        ("BREAKER_MAX_EJECTED", "1.1", "less than or equal to 1"),
        ("BREAKER_MAX_OPEN_SECONDS", "1", "TANDEM_ROUTER_BREAKER_OPEN_SECONDS"),
        ("MAX_DRAFTS_PER_PLAN", "none", "valid integer"),
        ("LOG_LEVEL", "loud", "'debug'"),
        ("VERIFIES", "[]", "unknown variable"),
    ],
)
def test_a_bad_value_is_refused_and_the_variable_named(variable: str, text: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(**{variable: text})
    assert caught.value.field == f"TANDEM_ROUTER_{variable}"
    assert caught.value.field in caught.value.message
    assert says in caught.value.message


def test_the_verify_replicas_must_be_given() -> None:
    with pytest.raises(ConfigError, match="TANDEM_ROUTER_VERIFY"):
        config.load(RouterConfig, "router", {})


def load_kubernetes(**variables: str) -> RouterConfig:
    return load(**{"DISCOVERY": "kubernetes", "VERIFY": "[]", "DRAFTS": "{}"} | variables)


def test_kubernetes_needs_no_addresses_and_may_know_pools_that_the_configuration_does_not() -> None:
    settings = load_kubernetes(
        CLASSES='{"code": ["eagle"]}', DRAFTS='{"ngram": []}', KUBERNETES_NAMESPACE="t"
    )
    assert settings.classes == {"code": ("eagle",)}
    assert (settings.verify, settings.drafts) == ((), {"ngram": ()})
    assert settings.kubernetes_pool_label == "tandem.io/pool"


@pytest.mark.parametrize(
    ("variable", "text", "says"),
    [
        ("VERIFY", VERIFY, "finds the addresses itself"),
        ("DRAFTS", DRAFTS, "finds the addresses itself"),
        ("DRAFTS", '{"verify": []}', "cannot be the name"),
        ("CLASSES", '{"poetry": []}', "unknown class"),
        ("KUBERNETES_POOL_LABEL", "", "at least 1 character"),
        ("DNS_SECONDS", "1", "only the discovery dns"),
    ],
)
def test_what_kubernetes_does_not_use_is_refused(variable: str, text: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_kubernetes(**{variable: text})
    assert caught.value.field == f"TANDEM_ROUTER_{variable}"
    assert says in caught.value.message


def test_dns_takes_host_names_and_how_often_they_are_resolved() -> None:
    settings = load(DISCOVERY="dns", VERIFY='["verify:50052"]', DNS_SECONDS="0.5")
    assert (settings.verify, settings.dns_seconds) == (("verify:50052",), 0.5)
    with pytest.raises(ConfigError, match="TANDEM_ROUTER_VERIFY"):
        load(DISCOVERY="dns", VERIFY="[]")
    with pytest.raises(ConfigError, match="unknown pool"):
        load(DISCOVERY="dns", CLASSES='{"code": ["eagle"]}')
