"""A world: some queue managers, a network, virtual time, and everything that happens in it.

Time is a whole number of microseconds; events stand in a heap. All randomness comes from one seed,
split into named streams, so that a new draw in one does not shift the others (I27).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from random import Random
from typing import NoReturn

from onceq.core.manager import Manager
from onceq.core.state.queues import Queue
from onceq.directory import MemoryDirectory
from onceq.model.directory import DistributionList
from onceq.model.identity import guid_text
from onceq.model.limits import Settings
from onceq.service.history import History
from onceq.store.log import LogStore
from onceq.testing import marks, scale
from onceq.testing.apps import App, Program
from onceq.testing.beside import Beside
from onceq.testing.coordinators import Coordinators
from onceq.testing.disk import SimFiles
from onceq.testing.faults import Faults
from onceq.testing.forgetting import Forgetting
from onceq.testing.hostile import Ghosts
from onceq.testing.ledger import Ledger, Place
from onceq.testing.liars import Liars
from onceq.testing.lives import Lives
from onceq.testing.marks import Marks
from onceq.testing.network import SimNetwork
from onceq.testing.node import Node
from onceq.testing.operators import Operators
from onceq.testing.options import HOUR, MINUTE, SECOND, Options, draw, draw_size, sized
from onceq.testing.reloads import Reloads
from onceq.testing.restores import Restores
from onceq.testing.rot import Rot
from onceq.testing.tap import Tap
from onceq.testing.told import ADMIN, Told
from onceq.testing.trace import Trace, Violation
from onceq.testing.verdict import GRAVES, Verdict
from onceq.testing.workload import Workload

EVENTS_MAX = 400_000
"""A world with more events than that goes round in circles."""
QUIET_US = 48 * HOUR
"""Within this time everything must have drained once the faults stop (I26)."""

Keep = Callable[[LogStore, SimFiles, Settings], History | None]


def _no_history(store: LogStore, files: SimFiles, settings: Settings) -> None:
    return None


class World:
    """See the module. ``run`` lives through it, or raises Violation."""

    def __init__(
        self, seed: int, options: Options | None = None, *, whole_story: bool = False,
        keep: Keep | None = None, size: float = 0,
    ) -> None:  # fmt: skip
        """Make it; nothing happens yet.

        Args:
            size: Of the world (``options.sized``); 0: the seed says it.
            keep: Makes what writes the history of a manager; None: there are no histories.
        """
        self.seed = seed
        self.keep: Keep = keep or _no_history
        self.now = 0
        size = size or draw_size(Random(f"{seed}/size"))
        self.options = options or sized(draw(self.stream("options")), size)
        self.lives = Lives(self, fit=keep is None)
        self.options = self.lives.fitted(self.options)
        self.beside = Beside(self)
        self.options = self.beside.fitted(self.options)
        self.scale = scale.draw(Random(f"{seed}/scale"))
        self.trace = Trace(whole=whole_story)
        self.marks: Marks = Marks()
        self._heap: list[tuple[int, int, Callable[..., None], tuple[object, ...]]] = []
        self._sequence = 0
        self._streams: dict[str, Random] = {}
        self.network = SimNetwork(self)
        self.network.faulty = False
        self.tap = Tap(self)
        self.ghosts = Ghosts()
        self.ledger = Ledger(self)
        self.restores = Restores(self)
        self.verdict = Verdict(self)
        self.told = Told(self)
        self.forgetting = Forgetting(self)
        self.operators = Operators(self)
        self.directory = MemoryDirectory() if self.options.lists else None
        self.lists: dict[str, tuple[Place, ...]] = {}
        """Format names of distribution lists, and what they stand for."""
        self.nodes = [Node(self, index) for index in range(self.options.managers)]
        for node in self.nodes:
            node.on_down.append(lambda node=node: self.ledger.crashed(node))  # type: ignore[misc]
        self._make_places()
        if self.directory is not None:
            self._make_lists(self.directory)
        self.workload = Workload(self)
        self.coordinators = Coordinators(self)

    # ---- time and chance ----------------------------------------------------------------

    def stream(self, name: str) -> Random:
        """A named stream of random numbers; a new one at each call but for the same draws."""
        if name not in getattr(self, "_streams", {}):
            made = Random(f"{self.seed}/{name}")
            if not hasattr(self, "_streams"):
                return made
            self._streams[name] = made
        return self._streams[name]

    def at(self, when_us: int, work: Callable[..., None], *arguments: object) -> None:
        """Something happens then."""
        self._sequence += 1
        heappush(self._heap, (max(when_us, self.now), self._sequence, work, arguments))

    def note(self, *what: object) -> None:
        """Put something into the trace."""
        self.trace.note(self.now, *what)

    def wrong(self, what: str, detail: str = "") -> NoReturn:
        """An invariant does not hold."""
        raise Violation(what + (f"\n{detail}" if detail else ""))

    def _run_until(self, end_us: int, done: Callable[[], bool]) -> bool:
        """Let things happen; whether ``done`` held before the time was over."""
        while self._heap and self._heap[0][0] <= end_us:
            when, _, work, arguments = heappop(self._heap)
            self.now = when
            work(*arguments)
            if self.trace.events > EVENTS_MAX:
                self.wrong(f"I26: more than {EVENTS_MAX} events: something goes round in circles")
            if done():
                return True
        self.now = end_us
        return done()

    # ---- its queues ---------------------------------------------------------------------

    def _make_places(self) -> None:
        rng, options = self.stream("choices"), self.options
        for node in self.nodes:
            if node.index == self.beside.of and not self.beside.queues.active:
                continue
            for number in range(options.queues):
                late = number > 0 and rng.random() < options.wrong
                self._place(node.index, f"private$\\q{number}", node, late=late, plain=number == 1)
        if options.wrong:
            self._place(-1, "private$\\nowhere", None, late=True, plain=False)

    def _place(self, index: int, name: str, node: Node | None, *, late: bool, plain: bool) -> None:
        rng = self.stream("choices")
        if node is None:
            spellings = [f"DIRECT=OS:NOWHERE\\{name}"]
        else:
            spellings = [f"DIRECT=OS:{node.name}\\{name}", f"DIRECT=TCP:{node.ip}\\{name}"]
            rng.shuffle(spellings)
            if not late and rng.random() < 0.25:
                spellings.insert(0, "PRIVATE=")
        quota = rng.choice([1, 4, 16]) if rng.random() < 0.2 else 0
        place = Place(index, name, spellings, not plain, quota, late=late)
        more = self.stream("parts")
        if node is not None and place.transactional:
            place.poison = more.random() < self.options.poison
            place.retry_s = more.choice([0, 1, 60]) if place.poison else 0
            for part in ("aside", "retry", "poison"):
                if part == "aside" if not place.poison else part != "aside":
                    place.parts.append(Place(index, f"{name};{part}", [], parent=place))
        place.journal = self.stream("journals").random() < self.options.journals
        self.ledger.places[place.key] = place

    def _make_lists(self, directory: MemoryDirectory) -> None:
        """Some lists, of which some contain others, and each other."""
        rng = self.stream("lists")
        places = [place for place in self.ledger.places.values() if place.node >= 0]
        made: list[tuple[DistributionList, set[tuple[int, str]]]] = []
        for index in range(3):
            chosen = rng.sample(places, min(rng.randint(1, 3), len(places)))
            members = [next(s for s in place.spellings if "OS:" in s) for place in chosen]
            keys = {place.key for place in chosen}
            if made and rng.random() < 0.5:
                inner, inside = rng.choice(made)
                members.append(f"DL={guid_text(inner.guid)}")
                keys |= inside
            guid = bytes((index + 1,)) * 16
            if rng.random() < 0.5:
                members.append(f"DL={guid_text(guid)}")
            one = DistributionList(guid, f"list{index}", tuple(members))
            directory.put_list(one, None)
            made.append((one, keys))
        for one, keys in made:
            self.lists[f"DL={guid_text(one.guid)}"] = tuple(
                place for place in places if place.key in keys
            )

    # ---- its life -----------------------------------------------------------------------

    def run(self) -> None:
        """From the first start to the last judgment."""
        with scale.put_in(self.scale):
            self._run()

    def rest(self) -> None:
        """After the end: let what other threads do under way come to its end."""
        with scale.put_in(self.scale):
            self._run_until(self.now + HOUR, lambda: not any(node.busy for node in self.nodes))

    def _run(self) -> None:
        for node in self.nodes:
            node.up()
        self._everybody(self.operators.set_up)
        if not self._run_until(HOUR, self._made):
            self.wrong("the queues cannot be made")
        self.network.faulty = True
        begun = self.now
        apps = self._populate()
        Faults(self)
        Liars(self)
        if not (self.lives.active or self.beside.active):  # it would be in the copies, too
            Rot(self)
        self.lives.begin()
        self.beside.begin()
        Reloads(self)
        self._run_until(begun + self.options.safety_us, lambda: False)
        self._calm()
        self._quiet([*apps, *self.beside.apps])
        readers = self._everybody(self.operators.graves)
        if not self._run_until(self.now + HOUR, lambda: _done(readers)):
            self.wrong("I26: whoever reads the system queues waits for ever")
        for node in self.nodes:
            assert node.engine is not None
            self.tap.ends(node, node.engine.manager)
            self._recount(node.engine.manager)
            if len(node.engine.manager.state.damages):
                self.marks[marks.SET_ASIDE] += 1
            node.recovery.in_the_end(node.engine.manager)
            self.lives.in_the_end(node, node.engine.manager)
            self.beside.siblings.noticed(node, node.engine.manager)
            self.beside.receivers.noticed(node, node.engine.manager)
        self.verdict.judge()
        self.told.judge()

    def _made(self) -> bool:
        return all(p.number for p in self.ledger.places.values() if not p.late)

    def _everybody(
        self, program: Callable[[App], Program], nodes: Sequence[Node] | None = None
    ) -> list[App]:
        """Every manager (of some) has somebody who runs one program once."""
        apps = []
        for node in self.nodes if nodes is None else nodes:
            todo = [program]
            app = App(node, MINUTE // 60, lambda app, todo=todo: todo.pop()(app) if todo else None)  # type: ignore[misc]
            app.start(0)
            apps.append(app)
        return apps

    def _populate(self) -> list[App]:
        """Applications and operators go to work."""
        apps = [app for node in self.nodes for app in self.employ(node)]
        self.coordinators.begin()
        return apps

    def employ(self, node: Node) -> list[App]:
        """Applications and operators of one manager go to work."""
        apps = []
        for _ in range(2):
            app = App(node, self.options.think_us, self.workload.next)
            app.start(self.stream("workload").randrange(self.options.think_us + 1))
            apps.append(app)
        if self.options.operator_every_us:
            app = App(node, self.options.operator_every_us, self.operators.next)
            app.start(self.options.operator_every_us)
            apps.append(app)
        return apps

    # ---- the end of all faults ----------------------------------------------------------

    def _calm(self) -> None:
        """The faults stop, and what they left behind is put in order."""
        self.note("calm")
        for node in self.nodes:
            if node.engine is not None:
                scale.looked(self.marks, self.scale, node.engine.manager)
        self.network.heal()
        for node in self.nodes:
            node.calm()
        self.coordinators.calm()
        # Whoever took a manager off the network may have died of it. Others would try to reach it
        # every few seconds for as long as some application sleeps: days of nothing else.
        off = [n for n in self.nodes if n.engine is not None and n.engine.manager.state.offline_s]
        self._everybody(self.operators.reconnect, off)

    def _quiet(self, apps: list[App]) -> None:
        """Everything drains (I26)."""
        end = self.now + QUIET_US
        if not self._run_until(end, lambda: all(app.idle for app in apps)):
            self.wrong("I26: an application waits for ever")
        for node in self.nodes:
            if node.engine is None:
                self._run_until(end, lambda node=node: node.engine is not None)  # type: ignore[misc]
        self._recover(end)
        drainers = self._everybody(self.operators.drain)
        self._drain(end)
        if self.beside.siblings.greet():
            self._drain(end)
            self.beside.siblings.everybody_knows()
        self.operators.drained = True
        self._run_until(self.now + HOUR, lambda: _done(drainers))

    def _drain(self, end: int) -> None:
        """Wait until nothing is left."""
        while not self._empty():
            if self.now >= end:
                self.wrong(self._undrained())
            self._run_until(min(self.now + 2 * MINUTE, end), lambda: False)

    def _recover(self, end: int) -> None:
        """Whatever was left prepared gets its outcome (I21)."""
        coordinators = self.coordinators
        if not coordinators.idle and not self._run_until(end, lambda: coordinators.idle):
            self.wrong("I26: an application with partners waits for ever")
        coordinators.last_rounds()
        if not coordinators.clean and not self._run_until(end, lambda: coordinators.clean):
            self.wrong("I21: recovery does not end, though everything can be reached")
        self.coordinators.books.finish()

    def _undrained(self) -> str:
        """Why it has not drained: something is stuck, or something is gone."""
        states = [node.engine.manager.state for node in self.nodes if node.engine is not None]
        stuck = any(o.unacknowledged for s in states for o in s.outgoing.values()) or any(
            len(queue) for s in states for queue in s.queues.values() if _is_drained(queue)
        )
        awaiting = sum(o.ordered_lane.awaiting for s in states for o in s.outgoing.values())
        what = "I26: not drained after two days: "
        if awaiting and not stuck:
            what = f"I1 or I12: {awaiting} acknowledged, in no queue, and their end never told: "
        return what + self._left()

    def _left(self) -> str:
        """What has not drained."""
        left = []
        for node in self.nodes:
            if node.engine is None:
                left.append(f"{node.name} is down")
                continue
            state = node.engine.manager.state
            for outgoing in state.outgoing.values():
                ours = "NOWHERE" not in str(outgoing.name) and node is not self.beside.ended
                ours = ours and not self.beside.receivers.is_hail(str(outgoing.name))
                if len(outgoing) and ours:
                    left.append(
                        f"{node.name} -> {outgoing.name}: {len(outgoing)} messages, "
                        f"{outgoing.unacknowledged} unacknowledged, session {outgoing.session}"
                    )
            left += [
                f"{node.name}\\{queue.properties.name}: {len(queue)} messages"
                for queue in state.queues.values()
                if len(queue) and _is_drained(queue)
            ]
            left += [
                f"{node.name}\\{part.title}: {len(part)} messages"
                for queue in state.queues.values()
                for part in queue.subs.values()
                if len(part)
            ]
        return "; ".join(left)

    def _empty(self) -> bool:
        return not self._left()

    def _recount(self, manager: Manager) -> None:
        """Counters equal a recount (I19)."""
        for number, count in manager.state.recount().items():
            holder = manager.state.holders[number]
            if len(holder) != count:
                self.wrong(f"I19: queue {number} counts {len(holder)} messages, there are {count}")


__all__ = ["SECOND", "World"]


def _done(apps: list[App]) -> bool:
    """Whether those that run one program once have done so."""
    return all(app.begun and app.idle for app in apps)


def _is_drained(queue: Queue) -> bool:
    """Whether its messages are received before the end; what was told stays until then."""
    kept = {name.rpartition("\\")[2] for name in (ADMIN, GRAVES)}
    return not queue.system and queue.properties.name not in kept
