"""Sign-in at a provider, beside a real queue manager: what each group may do, and who has done it.

Upholds: I28.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

import httpx2 as httpx
import pytest
from playwright.sync_api import sync_playwright

from onceq.cli.main import run
from onceq.client.opening import connect
from onceq.console.guard import SUBJECT_CHARS_MAX
from tests.browser import NoBrowser, chromium
from tests.daemon.console_browser import WIDTHS, launched
from tests.daemon.console_world import Running, console
from tests.daemon.shell import running
from tests.openid import CLIENT, SECRET, OpenId, provider
from tests.scratch import scratch

pytestmark = pytest.mark.slow
Q = r"private$\orders"


@pytest.fixture(scope="module")
def alpha(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A queue manager with two tokens."""
    with scratch(tmp_path_factory, "openid") as folder:
        path = folder / "alpha"
        assert run(["qm", "init", str(path), "--name", "ALPHA", "--listen", "127.0.0.1:0"]) == 0
        with running(path):
            with connect(str(path)) as qm:
                qm.create_queue(Q, transactional=True)
                for name, rights in (("operators", "monitor,operate"), ("readers", "monitor")):
                    made = qm.tokens.create(name, grants={"": rights})
                    _private(folder / f"{name}.token", made.token)
            yield path


@pytest.fixture(scope="module")
def one_provider() -> Iterator[OpenId]:
    with provider() as made:
        # Another site than the console's, as in life: cookies that are strict are not sent from it.
        made.issuer = made.issuer.replace("127.0.0.1", "localhost")
        yield made


@pytest.fixture
def openid(one_provider: OpenId) -> OpenId:
    one_provider.reset(one_provider.key)
    return one_provider


@pytest.fixture(scope="module")
def made(alpha: Path, one_provider: OpenId) -> Iterator[Running]:
    folder = alpha.parent
    _private(folder / "client.secret", SECRET)
    people = folder / "people.toml"
    people.write_text(
        f'[openid]\nissuer = "{one_provider.issuer}"\nclient_id = "{CLIENT}"\n'
        'client_secret_file = "client.secret"\n'
        '[groups]\noperators = "operators.token"\nreaders = "readers.token"\n'
    )
    with console(folder, alpha, openid=people) as one:
        yield one


def _private(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text)


@contextlib.contextmanager
def person(
    made: Running, openid: OpenId, name: str, sub: str, group: str
) -> Iterator[httpx.Client]:
    """A browser of somebody who has signed in."""
    openid.name, openid.sub, openid.groups = name, sub, [group]
    with httpx.Client(base_url=made.address, timeout=60) as client:
        place = client.get("/sign-in/begin").headers["location"]
        back = client.get(place.replace("/authorize?", "/agree?")).headers["location"]
        assert f"work as <bdi>{group}</bdi>" in client.get(back).text
        yield client


def press(client: httpx.Client, path: str, **fields: str) -> httpx.Response:
    """Send a form, as a page of the console would."""
    page = client.get(f"/m/alpha/queue?queue={Q}").text
    (token, *_) = re.findall(r'name="form_token" value="([^"]+)"', page)
    return client.post(path, data={"form_token": token, **fields})


def test_a_group_may_do_what_its_token_may_and_the_trail_has_the_person(
    alpha: Path, made: Running, openid: OpenId
) -> None:
    assert "code=" not in made.link
    with person(made, openid, "rita", "1", "readers") as reader:
        page = reader.get(f"/m/alpha/queue?queue={Q}")
        assert page.status_code == 200
        assert "Pause" not in page.text
        answer = press(reader, "/m/alpha/queue/pause", queue=Q)
        assert answer.status_code == 403
        assert "token:readers" in answer.text
    for name, sub in (("anna", "2"), ("otto", "3")):
        with person(made, openid, name, sub, "operators") as operator:
            assert "Pause" in operator.get(f"/m/alpha/queue?queue={Q}").text
            assert press(operator, "/m/alpha/queue/pause", queue=Q).status_code == 303
            assert press(operator, "/m/alpha/queue/resume", queue=Q).status_code == 303
    with connect(str(alpha)) as qm:
        acts = [
            (act.who, act.where.partition(",")[0], act.what, act.result) for act in qm.admin.trail()
            if act.what in ("pause", "resume")
        ]  # fmt: skip
    assert acts == [
        ("token:readers", "local for rita (1)", "pause", "access-denied"),
        ("token:operators", "local for anna (2)", "pause", ""),
        ("token:operators", "local for anna (2)", "resume", ""),
        ("token:operators", "local for otto (3)", "pause", ""),
        ("token:operators", "local for otto (3)", "resume", ""),
    ]
    log = made.error.read_text()
    assert 'signed in: person="anna (2)" group="operators"' in log
    assert (
        'act: person="anna (2)" group="operators" manager="ALPHA" act="pause_queue" '
        r'queue="private$\\orders" result="done"' in log
    )
    assert 'person="rita (1)"' in log
    assert "form_token" not in log


def test_a_token_that_is_revoked_lets_its_group_see_nothing(
    alpha: Path, tmp_path: Path, openid: OpenId
) -> None:
    """And not as the account of the console, which may do everything."""
    with connect(str(alpha)) as qm:
        gone = qm.tokens.create("gone", grants={"": "monitor,operate"})
    _private(tmp_path / "gone.token", gone.token)
    people = tmp_path / "people.toml"
    people.write_text(
        f'[openid]\nissuer = "{openid.issuer}"\nclient_id = "{CLIENT}"\n'
        f'client_secret_file = "{alpha.parent / "client.secret"}"\n'
        '[groups]\nothers = "gone.token"\n'
    )
    _private(alpha.parent / "client.secret", SECRET)
    with (
        console(tmp_path, alpha, "onceq://127.0.0.1:9", openid=people) as one,
        person(one, openid, "gus", "4", "others") as client,
    ):
        page = client.get("/m/alpha/queues")
        assert page.status_code == 200
        assert "orders" in page.text
        with connect(str(alpha)) as qm:
            qm.tokens.revoke("gone")
        for path in ("/m/alpha/queues", "/m/alpha/trail", "/api/managers/alpha/queues"):
            assert client.get(path).status_code in (403, 503), path


def test_a_person_signs_in_and_out_in_a_browser(
    made: Running, openid: OpenId, tmp_path: Path
) -> None:
    try:
        chromium()
    except NoBrowser as why:
        pytest.skip(f"the sign-in was not tried in a browser: {why}")
    openid.name, openid.sub, openid.groups = "anna", "2" * SUBJECT_CHARS_MAX, ["operators"]
    said: list[str] = []
    with sync_playwright() as play, launched(play) as browser:
        page = browser.new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto(made.address)
        page.get_by_role("link", name="Sign in at").click()
        page.get_by_role("link", name="Sign in as anna").click()
        page.wait_for_url(made.address)
        page.get_by_text(f"anna ({openid.sub}) as operators").wait_for()
        page.goto(f"{made.address}m/alpha/queue?queue={Q}")
        page.get_by_role("button", name="Pause").click()
        page.get_by_role("status").get_by_text("paused").wait_for()
        page.goto(f"{made.address}m/alpha/queue?queue={Q}")
        page.get_by_role("button", name="Resume").click()
        page.set_viewport_size({"width": WIDTHS[1], "height": 800})
        page.wait_for_function(f"document.documentElement.scrollWidth <= {WIDTHS[1]}")
        page.get_by_role("button", name="Sign out").click()
        page.get_by_role("link", name="Sign in at").wait_for()
        page.goto(made.address)
        assert page.url.endswith("/sign-in")
    assert said == []


@pytest.mark.parametrize("option", [["--https"], ["--host", "queues.example"]])
def test_where_browsers_reach_it_stands_in_the_file(
    made: Running, alpha: Path, option: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    people = str(alpha.parent / "people.toml")
    assert run(["console", "--port", "0", "-q", str(alpha), "--openid", people, *option]) != 0
    assert "address = " in capfd.readouterr().err


def test_a_file_that_is_wrong_starts_no_console(tmp_path: Path, alpha: Path) -> None:
    people = tmp_path / "people.toml"
    people.write_text('[openid]\nissuer = "http://login.example"\nclient_id = "x"\n')
    assert run(["console", "--port", "0", "-q", str(alpha), "--openid", str(people)]) != 0
