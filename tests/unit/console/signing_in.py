"""A console where people sign in at a provider, and a browser in front of it."""

from __future__ import annotations

import re
import time
from pathlib import Path

import httpx2 as httpx
from starlette.testclient import TestClient

from onceq.console.app import make
from onceq.console.desk import Desk
from onceq.console.guard import Keys
from onceq.console.managers import Managers
from onceq.console.people import read
from onceq.console.sign_in import BEGIN, SignIn
from tests.openid import CLIENT, SECRET, OpenId

BASE = "http://127.0.0.1:8181"
PLACES = ["onceq://127.0.0.1:9"]


def people_file(folder: Path, openid: OpenId, more: str = "", groups: str = "") -> Path:
    """A file for the console, with two groups."""
    for name in ("operators", "readers"):
        token = folder / f"{name}.token"
        token.write_text(f"onceqt_{name}_{'0' * 64}\n")
        token.chmod(0o600)
    secret = folder / "client.secret"
    secret.write_text(SECRET + "\n")
    secret.chmod(0o600)
    path = folder / "people.toml"
    path.write_text(
        f'[openid]\nissuer = "{openid.issuer}"\nclient_id = "{CLIENT}"\n'
        f'client_secret_file = "client.secret"\n{more}\n[groups]\n'
        + (groups or 'operators = "operators.token"\nreaders = "readers.token"\n')
    )
    path.chmod(0o644)
    return path


class House:
    """A console with a clock that a test moves, and a browser in front of it."""

    def __init__(self, folder: Path, openid: OpenId, more: str = "") -> None:
        people = read(str(people_file(folder, openid, more)))
        self.openid, self.at, self.ahead = openid, 0.0, 0.0
        roles = {
            group: Managers(PLACES, self.clock, token_file=file, role=True)
            for group, file in people.roles.items()
        }
        self.desk = Desk(
            Managers(PLACES, self.clock), Keys(self.clock, "the token for scripts"), "c",
            self.clock, lambda: time.time() + self.ahead, people.secure, roles=roles,
        )  # fmt: skip
        self.address = people.address or BASE
        door = SignIn(self.desk, people, address=self.address)
        self.app = make(self.desk, port=8181, names=people.names, door=door)

    def clock(self) -> float:
        return self.at

    def browser(self) -> TestClient:
        return TestClient(self.app, base_url=self.address, follow_redirects=False)


def begun(browser: TestClient) -> str:
    """Where the provider leads back to, after the person has agreed."""
    answer = browser.get(BEGIN)
    assert answer.status_code == 303, answer.text
    return agreed(answer.headers["location"])


def agreed(place: str) -> str:
    """Where a person who has agreed at the provider is led."""
    with httpx.Client(verify=False) as web:
        assert "Sign in as" in web.get(place).text
        return str(web.get(place.replace("/authorize?", "/agree?")).headers["location"])


def signed_in(browser: TestClient) -> httpx.Response:
    return browser.get(begun(browser))


def is_in(browser: TestClient) -> bool:
    return bool(browser.get("/").status_code == 200)


def refused(answer: httpx.Response, why: str, status: int = 403) -> None:
    assert answer.status_code == status, answer.text
    assert re.search(why, answer.text), answer.text
    assert "c=" not in re.sub("c-attempt=", "", answer.headers.get("set-cookie", ""))
