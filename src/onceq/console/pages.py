"""The pages: each has an address of its own, reads without a script, and shows what a function of
the table has told.

What changes something is a form on a page of its own, which says first what would happen; a browser
that repeats it is asked by itself. A button that the console's own rights do not allow is not
there, and what a queue manager refuses all the same is told in its words.
"""

from __future__ import annotations

import asyncio
import base64
import html
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final

from jinja2 import Environment
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from onceq.console import letters, reading
from onceq.console.api import overview
from onceq.console.desk import Desk, session_of, status_of, tell
from onceq.console.guard import FIRST_S_MAX, SESSION_S, FormValues
from onceq.console.managers import Watched
from onceq.console.reading import Read, Told
from onceq.console.sign_in import BEGIN, SignIn
from onceq.console.table import VIEWS, body_view, environment, fitting, link, sparkline
from onceq.errors import InvalidParameter, OnceqError, ServiceNotAvailable
from onceq.model.letters import REASONS
from onceq.model.wording import plural

Handler = Callable[[Request], Awaitable[Response]]

SCREENS: Final = (
    ("queues", "Queues"),
    ("dead", "Dead letters"),
    ("transactions", "Transactions"),
    ("outgoing", "Outgoing"),
    ("streams", "Streams"),
    ("peers", "Peers"),
    ("jobs", "Jobs"),
    ("trail", "Audit trail"),
    ("rights", "Rights"),
    ("settings", "Settings"),
)
"""Addresses and titles of what there is of each queue manager."""


class Pages:
    """Handlers of the pages of one console."""

    def __init__(self, desk: Desk, openid: SignIn | None = None) -> None:
        """Show the pages of a desk.

        Args:
            openid: How people sign in at a provider; None: they do by the link or the token.
        """
        self._desk, self._openid = desk, openid
        self._templates: Environment = environment(desk.now_s)

    def routes(self) -> list[Route]:
        """All of them."""
        made = [
            Route("/", self.overview, methods=["GET"]),
            Route("/sign-in", self.door, methods=["GET"]),
            Route("/sign-in", self.sign_in, methods=["POST"]),
            Route("/sign-out", self.sign_out, methods=["POST"]),
            Route("/m/{manager}", self.home, methods=["GET"]),
            Route("/m/{manager}/message", self.message, methods=["GET"]),
        ]
        screens: tuple[tuple[str, Read, str], ...] = (
            ("queues", reading.queues, "queues.html"),
            ("queue", reading.queue, "queue.html"),
            ("queue/send", reading.preview_send, "send.html"),
            ("dead", letters.dead, "dead.html"),
            ("dead/return", letters.preview_return, "dead_return.html"),
            ("dead/send-as-new", letters.preview_new, "dead_new.html"),
            ("dead/purge", letters.preview_purge, "dead_purge.html"),
            ("transactions", reading.transactions, "transactions.html"),
            ("transactions/decide", reading.preview_decision, "decide.html"),
            ("outgoing", reading.outgoing, "outgoing.html"),
            ("streams", reading.streams, "streams.html"),
            ("peers", reading.peers, "peers.html"),
            ("jobs", letters.list_jobs, "jobs.html"),
            ("jobs/one", letters.show_job, "job.html"),
            ("trail", reading.trail, "trail.html"),
            ("rights", reading.rights, "rights.html"),
            ("settings", reading.settings, "settings.html"),
        )
        for path, read, template in screens:
            screen = path.partition("/")[0]
            handler = self._screen(read, template, "queues" if screen == "queue" else screen)
            made.append(Route(f"/m/{{manager}}/{path}", handler, methods=["GET"]))
        forms: tuple[tuple[str, Read, Callable[[Told], str]], ...] = (
            ("queue/pause", reading.pause_queue, "{why}".format_map),
            ("queue/resume", reading.resume_queue, "{why}".format_map),
            (
                "queue/release",
                reading.release_queue,
                lambda told: f"{plural(told['released'], 'hold')} of {told['queue']} ended",
            ),
            ("queue/send", reading.send, "sent: {id}".format_map),
            ("outgoing/pause", reading.pause_outgoing, "{why}".format_map),
            ("outgoing/resume", reading.resume_outgoing, "{why}".format_map),
            ("dead/return", letters.return_home, _returned),
            ("dead/send-as-new", letters.send_as_new, partial(_are, "sent as new", "sent_as_new")),
            ("dead/purge", letters.purge, partial(_are, "removed for good", "removed")),
            ("jobs/cancel", letters.cancel_job, "job {job[number]} is {job[state]}".format_map),
            ("transactions/decide", reading.decide, _decided),
            ("transactions/forget", reading.forget, "forgotten: {branch[xid]}".format_map),
        )
        for path, act, words in forms:
            handler = self._form(act, path.partition("/")[0], words)
            made.append(Route(f"/m/{{manager}}/{path}", handler, methods=["POST"]))
        return made

    # ---- what is there without a queue manager ------------------------------------------------

    async def overview(self, request: Request) -> Response:
        """Every queue manager: does it move, and why not."""
        looks = [
            asyncio.ensure_future(one.looked.wait()) for one in self._desk.managers_of(request)
        ]
        _, late = await asyncio.wait(looks, timeout=FIRST_S_MAX)
        for look in late:
            look.cancel()
        return self._page(request, "overview.html", title="Overview", cards=self.cards(request))

    def cards(self, request: Request) -> list[dict[str, Any]]:
        """What the overview shows of each queue manager, with its pictures."""
        watched = list(self._desk.managers_of(request))
        most = max((sample.messages for one in watched for sample in one.samples), default=0)
        found = []
        for one in watched:
            messages = [float(sample.messages) for sample in one.samples]
            label = f"messages in its queues over the last minutes, at most {most}"
            found.append(
                {
                    **overview(one, self._desk),
                    "picture": sparkline(messages, top=float(most), label=label),
                    "log_rate": _rate(one),
                }
            )
        return found

    async def part(self, request: Request) -> str:
        """The part of the overview that changes, as live numbers bring it."""
        template = self._templates.get_template("cards.html")
        return template.render(cards=self.cards(request))

    async def jobs_part(self, request: Request) -> str:
        """The part of the page of jobs that changes."""
        session = session_of(request)
        try:
            watched = self._desk.watched(request)
            told = await self._desk.read(watched, letters.list_jobs, FormValues({}))
        except OnceqError as error:
            return f'<p class="notice bad">{html.escape(error.text)}</p>'
        return self._templates.get_template("jobs_table.html").render(
            told=told, watched=watched, form_token=session.form_token if session else "",
        )  # fmt: skip

    async def door(self, request: Request) -> Response:
        """The page to sign in at. It takes a click: what looks at links beforehand, as some
        programs do, does not use the code up."""
        given = request.query_params.get("code", "")[:200]
        return self._door(request, given)

    def _door(self, request: Request, code: str = "", *, status: int = 200) -> Response:
        provider = self._openid.title if self._openid is not None else ""
        return self._page(
            request, "sign_in.html", title="Sign in", code=code, wrong=status != 200,
            provider=provider, begin=BEGIN, status=status,
        )  # fmt: skip

    async def sign_in(self, request: Request) -> Response:
        """Open a session with a code or the token; where people sign in at a provider, with
        neither: everybody has a name then."""
        if self._openid is not None:
            return self._door(request, status=403)
        try:
            secret = FormValues.of_query((await request.body()).decode("utf-8", "replace")).text(
                "code"
            )
        except InvalidParameter:
            secret = ""
        cookie = self._desk.keys.sign_in(secret) if secret else None
        if cookie is None:
            return self._door(request, status=403)
        answer = RedirectResponse("/", status_code=303)
        answer.set_cookie(
            self._desk.cookie, cookie, max_age=SESSION_S, path="/", httponly=True,
            samesite="strict", secure=self._desk.secure,
        )  # fmt: skip
        return answer

    async def sign_out(self, request: Request) -> Response:
        """End the session."""
        session = session_of(request)
        if session is not None and session.person:
            tell("signed out", person=session.person)
        self._desk.keys.sign_out(request.state.cookie)
        answer = RedirectResponse("/sign-in", status_code=303)
        answer.delete_cookie(self._desk.cookie, path="/", secure=self._desk.secure)
        return answer

    # ---- of one queue manager -----------------------------------------------------------------

    async def home(self, request: Request) -> Response:
        """The first screen of a queue manager."""
        return RedirectResponse(f"/m/{request.path_params['manager']}/queues", status_code=303)

    async def message(self, request: Request) -> Response:
        """One message, its body in one of the views."""

        def view_body(told: Told, given: FormValues) -> dict[str, Any]:
            body = _body(told)
            view = given.text("view") or (fitting(body) if body is not None else "text")
            if view not in VIEWS:
                raise InvalidParameter(f"a body is shown as {', '.join(VIEWS)}; not {view!r}")
            text, cut = body_view(body or b"", view)
            return {"view": view, "views": VIEWS, "body_text": text, "cut": cut,
                    "seen": body is not None}  # fmt: skip

        return await self._screen(reading.message, "message.html", "queues", view_body)(request)

    def _screen(
        self,
        read: Read,
        template: str,
        screen: str,
        more: Callable[[Told, FormValues], Mapping[str, Any]] | None = None,
    ) -> Handler:
        """A page that shows what was read.

        Args:
            screen: The entry of the contents that it belongs to.
            more: What the template needs besides.
        """

        async def answer(request: Request) -> Response:
            watched: Watched | None = None
            try:
                watched = self._desk.watched(request)
                given = FormValues.of_query(request.url.query)
                told = await self._desk.read(watched, read, given)
                extra = more(told, given) if more is not None else {}
            except OnceqError as error:
                return self._trouble(request, watched, screen, error)
            return self._page(
                request, template, watched=watched, screen=screen, given=given.values, told=told,
                title=_title(screen), reasons=REASONS, **extra,
            )  # fmt: skip

        return answer

    def _form(self, act: Read, back: str, words: Callable[[Told], str]) -> Handler:
        """What a form has done, told on the page that it leads back to."""

        async def answer(request: Request) -> Response:
            watched: Watched | None = None
            try:
                watched = self._desk.watched(request)
                given = FormValues.of_query((await request.body()).decode("utf-8", "replace"))
                told = await self._desk.act(request, watched, act, given)
            except OnceqError as error:
                return self._trouble(request, watched, back, error)
            session = session_of(request)
            if session is not None:
                session.tell(words(told))
            kept = {"queue": given.text("queue")} if back in ("dead", "queue") else {}
            return RedirectResponse(link(f"/m/{watched.key}/{back}", kept), status_code=303)

        return answer

    def _trouble(
        self, request: Request, watched: Watched | None, screen: str, error: OnceqError
    ) -> Response:
        away = watched is not None and isinstance(error, ServiceNotAvailable)
        return self._page(
            request, "trouble.html", watched=watched, screen=screen, title="Trouble", away=away,
            code=error.code, text=error.text, cure=error.cure, status=status_of(error),
        )  # fmt: skip

    def _page(
        self, request: Request, template: str, *, title: str, status: int = 200,
        watched: Watched | None = None, screen: str = "", **values: Any,
    ) -> Response:  # fmt: skip
        session = session_of(request)
        text = self._templates.get_template(template).render(
            title=title, watched=watched, screen=screen, screens=SCREENS,
            managers=list(self._desk.managers_of(request)) if session or watched else [],
            session=session, form_token=session.form_token if session else "",
            notices=session.take_notices() if session else [], **values,
        )  # fmt: skip
        return HTMLResponse(text, status_code=status)


def _title(screen: str) -> str:
    return dict(SCREENS)[screen]


def _rate(watched: Watched) -> float | None:
    """Bytes a second that its log has grown by lately; None: nobody knows yet."""
    if len(watched.samples) < 2:
        return None
    last, first = watched.samples[-1], watched.samples[max(len(watched.samples) - 6, 0)]
    passed = last.at - first.at
    return max(last.log - first.log, 0) / passed if passed > 0 else None


def _body(told: Told) -> bytes | None:
    if told["body"] is not None:
        text: str = told["body"]
        return text.encode()
    if told["body_base64"] is not None:
        return base64.b64decode(told["body_base64"])
    return None


def _returned(told: Told) -> str:
    said = f"{plural(told['returned'], 'dead letter')} returned"
    kept = sum(told["kept"].values())
    if kept:
        said += f"; {kept:,} stay: {'; '.join(told['kept'])}"
    return said + ("; there are more" if told["more"] else "") + _goes_on(told)


def _goes_on(told: Told) -> str:
    """Of what is a job: that it goes on, or that some have failed."""
    number, failed = told.get("job"), told.get("failed")
    if not number:
        return ""
    said = f"; {failed:,} failed: job {number} names them" if failed else ""
    return said + (f"; job {number} goes on" if told["state"] == "running" else "")


def _are(done: str, counted: str, told: Told) -> str:
    """What was done to dead letters, whose number has a name of its own."""
    return f"{plural(told[counted], 'dead letter')} {done}" + _goes_on(told)


def _decided(told: Told) -> str:
    word = "committed" if told["outcome"] == "commit" else "rolled back"
    return f"{word} by hand: {told['branch']['xid']}"
