"""What the handlers of requests share: the queue managers, the clocks, the keys, the templates.

Who has signed in by OpenID Connect works as the token of a group: for each group there are
connections of its own, which show that token. What somebody changes goes over a connection that
says for whom it is, so that the trail of the queue manager does.

Each sign-in and each act of somebody whom the provider has named writes a line to the error output.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from starlette.requests import Request

from onceq import errors
from onceq.client.tasks.manager import AsyncQueueManager
from onceq.console.guard import BrowserSession, FormValues, Keys
from onceq.console.managers import Managers, Sample, Watched
from onceq.console.reading import Read, Told, numbers

STATUS: Final[tuple[tuple[type[errors.OnceqError], int], ...]] = (
    (errors.AccessDenied, 403),
    (errors.QueueNotFound, 404),
    (errors.MessageNotFound, 404),
    (errors.UnknownBranch, 404),
    (errors.InvalidParameter, 400),
    (errors.ServiceNotAvailable, 503),
    (errors.ManagerSlow, 503),
    (errors.UsageError, 400),
    (errors.Refused, 409),
)
"""Status of HTTP for an error, by the first class that fits; for others it is 502."""
ABOUT: Final = ("queue", "destination", "branch", "outcome", "number", "id", "reason", "dry_run")
"""What the log says of an act: no body of a message, and no secret of a form."""


@dataclass(slots=True)
class Desk:
    """What one console has.

    Attributes:
        managers: As the console itself.
        roles: By group, as its token.
        cookie: Name of the session's cookie.
        monotonic, wall: Clocks, in seconds.
        secure: Whether browsers reach it by HTTPS alone.
        events: Pages that get live numbers now.
    """

    managers: Managers
    keys: Keys
    cookie: str
    monotonic: Callable[[], float]
    wall: Callable[[], float]
    secure: bool = False
    events: int = field(default=0)
    roles: Mapping[str, Managers] = field(default_factory=dict)

    def managers_of(self, request: Request) -> Managers:
        """The queue managers with the connections of the caller."""
        session = session_of(request)
        return self.roles[session.role] if session is not None and session.role else self.managers

    @property
    def every(self) -> Iterator[Managers]:
        """All connections to queue managers."""
        yield self.managers
        yield from self.roles.values()

    def now_s(self) -> int:
        """Seconds since 1970."""
        return int(self.wall())

    def watched(self, request: Request) -> Watched:
        """The queue manager that the address of a request names; raises ManagerNotFound."""
        return self.managers_of(request)[request.path_params["manager"]]

    async def read(self, watched: Watched, read: Read, given: FormValues) -> Told:
        """Ask a queue manager; raises OnceqError."""
        return await watched.read(self._ask(read, given))

    async def act(self, request: Request, watched: Watched, read: Read, given: FormValues) -> Told:
        """Have a queue manager do something for the caller; raises OnceqError."""
        session = session_of(request)
        person = session.person if session is not None else ""
        if not person:
            return await watched.act(self._ask(read, given))
        result = "interrupted"
        try:
            told = await watched.act(self._ask(read, given), person)
            result = "done"
            return told
        except errors.OnceqError as error:
            result = error.code
            raise
        finally:
            group = session.role if session is not None else ""
            about = {name: given.values[name] for name in ABOUT if name in given.values}
            tell("act", person=person, group=group, manager=watched.title, act=read.__name__,
                 **about, result=result)  # fmt: skip

    def _ask(self, read: Read, given: FormValues) -> Callable[[AsyncQueueManager], Awaitable[Told]]:
        return lambda qm: read(qm, given, self.now_s())

    async def sample(self, watched: Watched) -> Sample:
        """The numbers of a queue manager now; raises OnceqError."""
        found = await watched.read(lambda qm: numbers(qm, self.now_s()), probe=True)
        watched.name = str(found.shown["name"])
        return Sample(self.monotonic(), found.shown, found.messages, found.log)


def session_of(request: Request) -> BrowserSession | None:
    """The session of a request; None: it has shown the token, or nothing."""
    found: BrowserSession | None = request.state.session
    return found


def status_of(error: errors.OnceqError) -> int:
    """Status of HTTP for an error."""
    return next((status for kind, status in STATUS if isinstance(error, kind)), 502)


def told_of(error: errors.OnceqError) -> dict[str, Any]:
    """An error for scripts."""
    text = error.text.removeprefix(f"[{error.code}] ")
    return {"error": {"code": error.code, "text": text, "cure": error.cure}}


LOG: Final = logging.getLogger("onceq.console")


def tell(what: str, **about: object) -> None:
    """Say that something was done.

    Args:
        about: Values, which are written as JSON: nothing in them begins a line.
    """
    words = " ".join(f"{name}={json.dumps(value)}" for name, value in about.items())
    LOG.info("%s: %s", what, words)


def show_log() -> None:
    """Have these lines on the error output, with their times, also where nothing else is shown."""
    if LOG.handlers:
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s console: %(message)s"))
    LOG.addHandler(handler)
    LOG.setLevel(logging.INFO)
    LOG.propagate = False
