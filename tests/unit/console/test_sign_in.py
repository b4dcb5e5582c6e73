"""Sign-in at a provider: who comes in, as what, for how long; and what browsers, and those who send
them links, cannot do."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from starlette.testclient import TestClient

from onceq.console.guard import ATTEMPT_S, GROUPS_MAX
from onceq.console.sign_in import BACK, BEGIN
from tests.openid import OpenId
from tests.unit.console.signing_in import BASE, House, agreed, begun, is_in, refused, signed_in

# ---- who comes in --------------------------------------------------------------------------------


def test_a_person_comes_in_and_works_as_the_group(house: House, browser: TestClient) -> None:
    assert browser.get("/").headers["location"] == "/sign-in"
    door = browser.get("/sign-in").text
    assert f'href="{BEGIN}"' in door
    assert 'name="code"' not in door
    answer = signed_in(browser)
    assert answer.status_code == 200
    assert 'content="0;url=/"' in answer.text, "a redirection would not carry the cookie"
    assert "anna (4711)" in answer.text
    assert is_in(browser)
    page = browser.get("/").text
    assert "<bdi>anna (4711)</bdi> as <bdi>operators</bdi>" in page
    session = house.desk.keys.session(browser.cookies["c"])
    assert session is not None
    assert (session.person, session.role) == ("anna (4711)", "operators")


def test_what_is_asked_of_the_provider(house: House, browser: TestClient) -> None:
    place = urlsplit(browser.get(BEGIN).headers["location"])
    asked = {name: values[0] for name, values in parse_qs(place.query).items()}
    assert asked["redirect_uri"] == BASE + BACK
    assert asked["code_challenge_method"] == "S256"
    assert len(asked["state"]) == len(asked["nonce"]) == len(asked["code_challenge"]) == 43
    again = parse_qs(urlsplit(browser.get(BEGIN).headers["location"]).query)
    for name in ("state", "nonce", "code_challenge"):
        assert again[name] != [asked[name]]


def test_cookies_are_for_this_console_alone(tmp_path: Path, openid: OpenId) -> None:
    house = House(tmp_path, openid, 'address = "https://queues.example"')
    with house.browser() as browser:
        begins = browser.get(BEGIN)
        back = agreed(begins.headers["location"])
        assert back.startswith("https://queues.example/sign-in/back?")
        ends = browser.get(back)
    attempt = begins.headers["set-cookie"].casefold()
    session = ends.headers.get_list("set-cookie")[0].casefold()
    assert session.startswith("c=")
    for said in (attempt, session):
        assert all(word in said for word in ("httponly", "secure", "path=/"))
        assert "domain" not in said
    assert "samesite=lax" in attempt
    assert "samesite=strict" in session


def test_neither_the_link_nor_the_token_opens_a_session(house: House, browser: TestClient) -> None:
    code = house.desk.keys.new_code()
    for secret in (code, "the token for scripts"):
        answer = browser.post("/sign-in", data={"code": secret})
        assert answer.status_code == 403
        assert "set-cookie" not in answer.headers
    shown = {"authorization": "Bearer the token for scripts"}
    assert browser.get("/api/managers", headers=shown).status_code == 200


@pytest.mark.parametrize(
    ("groups", "role"),
    [
        (["readers"], "readers"),
        (["readers", "operators"], "operators"),
        (["else", "readers", "more"], "readers"),
        ("readers", "readers"),
    ],
)
def test_of_several_groups_the_first_of_the_file_counts(
    house: House, browser: TestClient, groups: Any, role: str
) -> None:
    house.openid.claims["groups"] = groups
    assert f"work as <bdi>{role}</bdi>" in signed_in(browser).text


@pytest.mark.parametrize(
    ("groups", "why"),
    [
        ([], "names no groups of yours"),
        (None, "names no groups of yours"),
        (["strangers", "<b>others</b>"], "strangers, &lt;b&gt;others&lt;/b&gt;"),
        (["Operators", "operators ", "operator"], "no group of yours"),
        ({"operators": True}, "no list of names"),
        ([["operators"]], "no list of names"),
        (["x"] * (GROUPS_MAX + 1), "more than 1000 groups"),
    ],
)
def test_whose_groups_are_not_let_in_is_told_so(
    house: House, browser: TestClient, groups: Any, why: str
) -> None:
    house.openid.claims["groups"] = groups
    refused(signed_in(browser), why)
    assert not is_in(browser)


@pytest.mark.parametrize("algorithm", ["RS256", "RS512", "PS256", "ES256", "ES384"])
def test_signatures_by_public_keys_count(house: House, browser: TestClient, algorithm: str) -> None:
    house.openid.change_keys(algorithm)
    signed_in(browser)
    assert is_in(browser)


def test_names_of_people_are_text_and_no_trap(house: House, browser: TestClient) -> None:
    house.openid.name = "root (0), <script>\n" + "x" * 100
    text = signed_in(browser).text
    assert "<script>" not in text.partition("</head>")[2]
    session = house.desk.keys.session(browser.cookies["c"])
    assert session is not None
    assert re.fullmatch(r"root _0__ _script__x+ \(4711\)", session.person)
    assert len(session.person) <= 60 + len(" (4711)")


def test_the_secret_goes_where_the_provider_wants_it(house: House, browser: TestClient) -> None:
    house.openid.method = "client_secret_post"
    signed_in(browser)
    assert is_in(browser)


def test_who_begins_at_another_name_of_the_console_goes_on_at_the_right_one(
    house: House, browser: TestClient
) -> None:
    answer = browser.get(BEGIN, headers={"host": "localhost:8181"})
    assert answer.headers["location"] == BASE + BEGIN
    assert house.openid.asked == {}


# ---- sessions end --------------------------------------------------------------------------------


def test_a_session_ends_by_sign_out(house: House, browser: TestClient) -> None:
    signed_in(browser)
    session = house.desk.keys.session(browser.cookies["c"])
    assert session is not None
    answer = browser.post("/sign-out", data={"form_token": session.form_token})
    assert answer.headers["location"] == "/sign-in"
    assert not is_in(browser)


def test_a_session_ends_with_its_time(tmp_path: Path, openid: OpenId) -> None:
    house = House(tmp_path, openid, "session_minutes = 30")
    with house.browser() as browser:
        signed_in(browser)
        cookie = browser.cookies["c"]
        house.at = 30 * 60 - 1
        browser.cookies.set("c", cookie)
        assert is_in(browser)
        house.at = 30 * 60 + 1
        assert not is_in(browser)


# ---- lies of browsers, and of those who send them links ------------------------------------------


def test_a_link_of_somebody_else_signs_nobody_in(house: House) -> None:
    """Login CSRF: a code and a state of the attacker's own, in the browser of somebody else."""
    with house.browser() as attacker, house.browser() as victim:
        link = begun(attacker)
        refused(victim.get(link), "not begun in this browser")
        own = begun(victim)
        refused(victim.get(link), "not begun in this browser")
        assert house.openid.asked["/token"] == 0
        assert not is_in(victim)
        assert victim.get(own).status_code == 200, "and it ends no sign-in of the victim's own"


def test_an_answer_is_taken_once(house: House, browser: TestClient) -> None:
    house.openid.forgets = True
    link = begun(browser)
    attempt = browser.cookies["c-attempt"]
    assert browser.get(link).status_code == 200
    with house.browser() as other:
        other.cookies.set("c-attempt", attempt)
        refused(other.get(link), "over already")
        assert not is_in(other)
    assert house.openid.asked["/token"] == 1


def test_a_code_of_another_sign_in_is_not_taken(house: House, browser: TestClient) -> None:
    """Code injection: a code that somebody else has got, with the state of this browser."""
    with house.browser() as other:
        stolen = parse_qs(urlsplit(begun(other)).query)["code"][0]
    state = parse_qs(urlsplit(begun(browser)).query)["state"][0]
    refused(browser.get(f"{BACK}?code={stolen}&state={state}"), "invalid_grant")


def test_a_code_that_the_provider_does_not_know_is_not_taken(browser: TestClient) -> None:
    state = parse_qs(urlsplit(begun(browser)).query)["state"][0]
    refused(browser.get(f"{BACK}?code=made-up&state={state}"), "invalid_grant")


def test_who_takes_too_long_begins_again(house: House, browser: TestClient) -> None:
    link = begun(browser)
    attempt = browser.cookies["c-attempt"]
    house.at += ATTEMPT_S + 1
    browser.cookies.set("c-attempt", attempt)
    refused(browser.get(link), "too long")


def test_a_cookie_that_was_made_up_is_none(house: House, browser: TestClient) -> None:
    link = begun(browser)
    until, _, rest = browser.cookies["c-attempt"].partition(".")
    house.at += ATTEMPT_S + 1
    for cookie in ("", "x", f"{int(until) * 10}.{rest}", f"{until}.{rest[:-1]}", "9" * 5000):
        with house.browser() as other:
            other.cookies.set("c-attempt", cookie)
            refused(other.get(link), "not begun in this browser")


@pytest.mark.parametrize("more", ["&state=x", "&code=x", "&iss=a&iss=b"])
def test_what_is_said_twice_is_not_taken(browser: TestClient, more: str) -> None:
    refused(browser.get(begun(browser) + more), "not begun in this browser")


@pytest.mark.parametrize("query", ["", "?code=x", "?state=", "?code=x&state=%ff", "?" + "a&" * 99])
def test_who_has_not_begun_is_not_taken(house: House, browser: TestClient, query: str) -> None:
    refused(browser.get(BACK + query), "not begun in this browser")
    assert house.openid.asked == {}


def test_another_provider_that_answers_is_noticed(house: House, browser: TestClient) -> None:
    house.openid.returned["iss"] = "https://evil.example"
    refused(signed_in(browser), "Another provider")
    house.openid.returned["iss"] = house.openid.issuer
    assert signed_in(browser).status_code == 200


def test_a_provider_that_names_itself_always_does(house: House, browser: TestClient) -> None:
    house.openid.described["authorization_response_iss_parameter_supported"] = True
    refused(signed_in(browser), "Another provider")


def test_what_the_provider_refuses_is_told(house: House, browser: TestClient) -> None:
    house.openid.returned = {"code": None, "error": "access_denied<script>"}
    refused(signed_in(browser), "has not signed you in: access_denied&lt;script&gt;")
    house.openid.returned = {"code": None}
    refused(signed_in(browser), "no code")


@pytest.mark.parametrize("name", ["next", "return_to", "redirect_uri", "url"])
def test_nothing_leads_anywhere_else(house: House, browser: TestClient, name: str) -> None:
    evil = f"{name}=https://evil.example/"
    assert browser.get(f"{BEGIN}?{evil}").headers["location"].startswith(house.openid.issuer)
    answer = browser.get(begun(browser) + "&" + evil)
    assert answer.status_code == 200
    assert "evil" not in answer.text
    assert "location" not in answer.headers


def test_a_session_of_before_is_not_the_one_that_is_opened(browser: TestClient) -> None:
    browser.cookies.set("c", "a cookie that somebody has put there")
    signed_in(browser)
    assert [one for one in browser.cookies.jar if one.name == "c"][-1].value != (
        "a cookie that somebody has put there"
    )
