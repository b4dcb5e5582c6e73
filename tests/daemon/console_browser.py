"""A real Chromium that has signed in at a console."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Literal
from urllib.parse import urlencode, urlsplit

from playwright.sync_api import Browser, Page, Playwright, sync_playwright

from tests.browser import chromium
from tests.daemon.console_world import BRANCH, ORDERS, TOKEN

WIDTHS = (1280, 390)
SCREENS = {
    "overview": "/",
    "queues": "/m/alpha/queues",
    "queue": "/m/alpha/queue?" + urlencode({"queue": ORDERS}),
    "message": "",
    "dead": "/m/alpha/dead",
    "dead-return": "/m/alpha/dead/return?reason=purged",
    "dead-purge": "/m/alpha/dead/purge",
    "dead-new": "/m/alpha/dead/send-as-new?reason=purged",
    "jobs": "/m/alpha/jobs",
    "job": "/m/alpha/jobs/one?number=1",
    "transactions": "/m/alpha/transactions",
    "decide": "/m/alpha/transactions/decide?"
    + urlencode({"branch": str(BRANCH), "outcome": "commit"}),
    "outgoing": "/m/alpha/outgoing",
    "streams": "/m/alpha/streams",
    "peers": "/m/alpha/peers",
    "trail": "/m/alpha/trail",
    "rights": "/m/alpha/rights",
    "settings": "/m/alpha/settings",
    "away": "/m/127.0.0.1-9/queues",
    "sign-in": "/sign-in",
}
"""Addresses of the screens; that of a message is found by a click."""
FLAGS = [
    "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
]  # fmt: skip


@contextlib.contextmanager
def launched(play: Playwright) -> Iterator[Browser]:
    """A new browser; raises NoBrowser if there is none here."""
    browser = play.chromium.launch(
        executable_path=chromium(), args=FLAGS, chromium_sandbox=os.geteuid() != 0
    )
    try:
        yield browser
    finally:
        browser.close()


@contextlib.contextmanager
def signed_in(
    link: str, *, scheme: Literal["light", "dark"] = "light", bypass_policy: bool = False
) -> Iterator[Page]:
    """A page of a new browser, signed in by a link, or by the token if the link is an address
    alone.

    Args:
        bypass_policy: Let scripts of the test run in pages; for tools that look at them.

    Raises:
        NoBrowser: There is none here.
    """
    address = urlsplit(link)
    with sync_playwright() as play, launched(play) as browser:
        context = browser.new_context(
            base_url=f"{address.scheme}://{address.netloc}", bypass_csp=bypass_policy,
            color_scheme=scheme, viewport={"width": WIDTHS[0], "height": 800},
        )  # fmt: skip
        page = context.new_page()
        page.goto(link if address.query else "/sign-in")
        if not address.query:
            page.get_by_label("Code of the link, or token").fill(TOKEN)
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url("**/")
        yield page


def open_screen(page: Page, name: str) -> None:
    """Go to a screen."""
    if name != "message":
        page.goto(SCREENS[name])
        return
    page.goto(SCREENS["queue"])
    page.get_by_role("link", name="order 0", exact=True).click()
    page.get_by_role("heading", name="Its story").wait_for()
