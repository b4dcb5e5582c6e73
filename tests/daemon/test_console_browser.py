"""The console in a real Chromium: what a person sees and clicks, wide and narrow, with and without
scripts, and whether those can use it who do not see it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from onceq.cli.main import run
from onceq.client.opening import connect
from tests.browser import NoBrowser, chromium
from tests.daemon.console_browser import SCREENS, WIDTHS, open_screen, signed_in
from tests.daemon.console_world import (
    BRANCH,
    ORDERS,
    PLAIN,
    RETRY,
    SCRIPT,
    Running,
    console,
    furnished,
)
from tests.daemon.shell import running
from tests.scratch import scratch

WIDER = """() => [...document.querySelectorAll('body *')].filter(one => {
    const box = one.getBoundingClientRect();
    return box.width && !one.closest('pre, svg, .skip') && box.right > innerWidth + 0.5;
}).map(one => one.tagName + '.' + one.className)"""
"""What stands out of the window at the right."""


@pytest.fixture(scope="module")
def alpha(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    try:
        chromium()
    except NoBrowser as why:
        pytest.skip(f"the console was not tried in a browser: {why}")
    with scratch(tmp_path_factory, "console") as folder:
        path = folder / "alpha"
        assert run(["qm", "init", str(path), "--name", "ALPHA", "--listen", "127.0.0.1:0"]) == 0
        with running(path):
            furnished(path)
            yield path


@pytest.fixture(scope="module")
def made(alpha: Path) -> Iterator[Running]:
    with console(alpha.parent, alpha, "onceq://127.0.0.1:9") as one:
        yield one


@pytest.fixture
def page(made: Running) -> Iterator[Page]:
    """A page that has signed in, and fails the test if a browser complains of it."""
    said: list[str] = []
    with signed_in(made.address) as found:
        found.on("console", lambda message: said.append(message.text))
        found.on("pageerror", lambda error: said.append(str(error)))
        yield found
    assert [text for text in said if "503" not in text and "400" not in text] == []


def test_every_screen_fits_at_both_widths(page: Page) -> None:
    for name in SCREENS:
        open_screen(page, name)
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 800})
            assert page.evaluate(WIDER) == [], f"{name} at {width}"
            assert page.evaluate("document.documentElement.scrollWidth") <= width, name
            assert page.locator("h1").count() == 1, name
        page.set_viewport_size({"width": WIDTHS[0], "height": 800})


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_who_does_not_see_it_can_use_it(made: Running, scheme: Any) -> None:
    """axe-core at each screen: contrast AA, labels, headings, landmarks."""
    found: list[str] = []
    with signed_in(made.address, scheme=scheme, bypass_policy=True) as page:
        for name, width in itertools.product(SCREENS, WIDTHS):
            page.set_viewport_size({"width": width, "height": 800})
            open_screen(page, name)
            seen = Axe().run(page)
            assert seen.response["passes"], "it has looked"
            found += [
                f"{name} at {width}: {one['id']}: {node['html'][:120]}"
                for one in seen.response["violations"]
                for node in one["nodes"]
            ]
    assert found == []


def test_the_link_signs_in_by_a_click(made: Running) -> None:
    with signed_in(made.link) as page:
        expect(page.get_by_role("heading", name="Overview")).to_be_visible()
        page.get_by_role("button", name="Sign out").click()
        page.goto("/m/alpha/queues")
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


def test_a_dead_letter_is_returned_by_clicks(page: Page, alpha: Path) -> None:
    page.get_by_role("link", name="ALPHA").first.click()
    page.get_by_role("link", name="Dead letters").click()
    page.get_by_role("link", name="purged").first.click()
    row = page.get_by_role("row", name="invoice 1")
    row.get_by_role("link", name="Return").click()
    expect(page.locator("main")).to_contain_text("1 would be sent to their destinations again")
    page.get_by_role("button", name="Return 1").click()
    expect(page.get_by_role("status")).to_have_text("1 dead letter returned")
    expect(page.get_by_role("row", name="invoice 1")).to_have_count(0)
    expect(page.get_by_role("row", name="invoice 2")).to_have_count(1)
    with connect(str(alpha)) as qm:
        assert qm.receive(RETRY, timeout=30).body == b"invoice 1"


def test_a_branch_is_decided_by_clicks(page: Page, alpha: Path) -> None:
    page.goto("/m/alpha/transactions")
    row = page.get_by_role("row", name=str(BRANCH))
    row.get_by_role("link", name="Commit by hand").click()
    expect(page.locator("main")).to_contain_text("the partners differ permanently")
    page.get_by_role("link", name="Do nothing").click()
    row.get_by_role("link", name="Commit by hand").click()
    page.get_by_role("button", name="Commit by hand").click()
    expect(page.get_by_role("status")).to_have_text(f"committed by hand: {BRANCH}")
    with connect(str(alpha)) as qm:
        assert qm.queue(ORDERS).messages == 61
    page.get_by_role("button", name="Forget").click()
    expect(page.get_by_role("status")).to_have_text(f"forgotten: {BRANCH}")


def test_a_stored_script_is_text_and_does_not_run(page: Page) -> None:
    page.goto("/m/alpha/queues")
    expect(page.get_by_text(SCRIPT)).to_be_visible()
    page.get_by_role("link", name=PLAIN).click()
    page.get_by_role("link", name=SCRIPT).click()
    expect(page.locator("pre")).to_have_text(SCRIPT)
    expect(page.locator("h1")).to_contain_text(SCRIPT)
    for view in ("hex", "json", "text"):
        page.get_by_role("link", name=view, exact=True).click()
        assert "taken" not in page.title()
    page.goto("/m/alpha/dead?label=" + SCRIPT)
    assert "taken" not in page.title()


def test_the_policy_runs_no_script_that_is_not_the_consoles(made: Running) -> None:
    with signed_in(made.address) as page:
        page.set_content("<script>document.title='taken'</script>")
        page.goto("/")
        page.evaluate("""() => {
            const one = document.createElement('script');
            one.textContent = "document.title = 'taken'";
            document.body.append(one);
        }""")
        assert page.title() != "taken"


def test_live_numbers_follow_by_themselves(page: Page, alpha: Path) -> None:
    page.goto("/")
    card = page.get_by_role("region", name="ALPHA")
    before = int(card.locator("dd").nth(1).inner_text())
    with connect(str(alpha)) as qm:
        qm.send(ORDERS, b"one more", transactional=True)
    expect(card.locator("dd").nth(1)).to_have_text(str(before + 1), timeout=30_000)


def test_the_keyboard_is_enough(page: Page) -> None:
    page.goto("/m/alpha/queues")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="To the content")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(page.get_by_role("textbox", name="Name")).to_be_focused()
    page.keyboard.type("orders")
    page.keyboard.press("Enter")
    expect(page.get_by_role("row")).to_have_count(2)
    page.get_by_role("link", name=ORDERS).focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name=ORDERS)).to_be_visible()
