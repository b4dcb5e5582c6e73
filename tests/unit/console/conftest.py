"""What tests of the sign-in share: one provider, which is honest at the beginning of each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from tests.openid import Key, OpenId, provider
from tests.unit.console.signing_in import House


@pytest.fixture(scope="session")
def keys() -> tuple[Key, Key]:
    """Two keys, made once: that takes a while."""
    return Key.made(), Key.made()


@pytest.fixture(scope="session")
def one_provider() -> Iterator[OpenId]:
    with provider() as made:
        yield made


@pytest.fixture
def openid(one_provider: OpenId, keys: tuple[Key, Key]) -> OpenId:
    one_provider.reset(keys[0])
    return one_provider


@pytest.fixture
def house(tmp_path: Path, openid: OpenId) -> House:
    return House(tmp_path, openid)


@pytest.fixture
def browser(house: House) -> Iterator[TestClient]:
    with house.browser() as made:
        yield made
