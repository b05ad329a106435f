from __future__ import annotations

from typing import Any

import pytest

from router.discovery.slices import pools
from tests.support.kubernetes_api import Json, endpoint, endpoint_slice, of_pod

LABEL = "tandem.io/pool"
ONE = [endpoint("10.0.0.1")]


def found(*slices: Json) -> dict[str, tuple[str, ...]]:
    return pools(slices, LABEL)


def test_every_pool_is_united_from_its_slices() -> None:
    assert found(
        endpoint_slice("a", "ngram", [endpoint("10.0.0.2"), endpoint("10.0.0.1")]),
        endpoint_slice("b", "verify", [endpoint("10.0.1.1")], port=50052),
        endpoint_slice("c", "ngram", [endpoint("10.0.0.3"), endpoint("10.0.0.1")]),
    ) == {
        "ngram": ("10.0.0.1:50053", "10.0.0.2:50053", "10.0.0.3:50053"),
        "verify": ("10.0.1.1:50052",),
    }


@pytest.mark.parametrize(
    ("conditions", "usable"),
    [
        ({"ready": True}, True),
        ({"ready": None}, True),
        ({"ready": True, "serving": True, "terminating": None}, True),
        ({"ready": False}, False),
        ({"ready": False, "serving": True, "terminating": True}, False),
        ({"ready": True, "serving": True, "terminating": True}, False),
    ],
)
def test_only_endpoints_that_are_ready_and_stay_are_used(
    conditions: dict[str, bool | None], usable: bool
) -> None:
    piece = endpoint_slice("a", "ngram", [endpoint("10.0.0.1", **conditions)])
    assert found(piece) == {"ngram": ("10.0.0.1:50053",) if usable else ()}


def test_a_pool_whose_slices_have_no_usable_endpoint_is_empty() -> None:
    assert found(endpoint_slice("a", "ngram", [])) == {"ngram": ()}
    assert found(endpoint_slice("a", "ngram", ONE) | {"endpoints": None}) == {"ngram": ()}


@pytest.mark.parametrize(
    ("ports", "chosen"),
    [
        ([{"name": "metrics", "port": 9103}, {"name": "grpc", "port": 50053}], ("10.0.0.1:50053",)),
        ([{"name": "", "port": 7000}], ("10.0.0.1:7000",)),
        ([{"name": "metrics", "port": 9103}, {"name": "http", "port": 80}], ()),
        ([{"name": "grpc", "port": None}], ()),
        ([], ()),
        (None, ()),
    ],
)
def test_the_port_is_the_one_named_grpc_or_the_only_one(ports: Any, chosen: tuple[str, ...]) -> None:
    assert found(endpoint_slice("a", "ngram", ONE, ports=ports)) == {"ngram": chosen}


def test_ipv6_addresses_are_written_in_brackets() -> None:
    piece = endpoint_slice("a", "ngram", [endpoint("fd00::1")], addressType="IPv6")
    assert found(piece) == {"ngram": ("[fd00::1]:50053",)}


def test_a_pod_with_addresses_of_both_families_is_one_replica() -> None:
    assert found(
        endpoint_slice("a", "ngram", [of_pod("p", "fd00::1")], addressType="IPv6"),
        endpoint_slice("b", "ngram", [of_pod("p", "10.0.0.1"), of_pod("q", "10.0.0.2")]),
    ) == {"ngram": ("10.0.0.1:50053", "10.0.0.2:50053")}


@pytest.mark.parametrize("labels", [{LABEL: ""}, {"app": "tandem"}, None])
def test_a_slice_that_names_no_pool_is_passed_over(labels: dict[str, str] | None) -> None:
    piece = endpoint_slice("a", "ngram", ONE, metadata={"name": "a", "labels": labels})
    assert found(piece) == {}


def test_a_slice_of_host_names_is_passed_over() -> None:
    assert found(endpoint_slice("a", "ngram", [endpoint("draft.example")], addressType="FQDN")) == {}
