"""``make kill``: two real daemons under load, killed with SIGKILL again and again; nothing may be
lost, repeated or out of order.

A sender puts numbered messages into transactions of mixed sizes on ALPHA, for a queue on BETA; a
receiver takes them there in transactions. Meanwhile one or the other daemon (or both) is killed
at moments that the seed decides, and started again. Every commit is written to a history of the
driver's own, and synced, before the next one begins; a commit whose answer was lost is settled by
asking for its outcome. At the end the history is the judge. With ``--tls on`` both have identities,
and speak TLS with each other.

Watches: I1, I3a, I4, I5, I17, I22, I26.
"""

from __future__ import annotations

import random
import signal
import statistics
from collections.abc import Callable
from pathlib import Path

from onceq.client.stopping import pause
from onceq.embedded import data_directory
from proof.nodes import Node, acquaint, allow, free_port
from proof.torture.command import command
from proof.torture.kill_judge import Judge, Outcome
from proof.torture.kill_load import WAITING_MAX, Receiver, Sender, Traffic

QUEUE = r"private$\stock"
DESTINATION = r"DIRECT=OS:BETA\private$\stock"
PAUSE_S = (0.05, 0.9)
"""Between a start and the next kill."""
SETTINGS = """
connect_retry_s = 0.1
resend_first_s = 0.5
resend_second_s = 1.0
resend_third_s = 1.0
resend_last_s = 1.0
order_ack_delay_s = 0.05
order_ack_delay_s_max = 0.2
checkpoint_log_bytes = 2097152
"""


class Driver(Traffic):
    """One sender and one receiver, and a judge of both."""

    judge: Judge

    def __init__(
        self, folder: Path, alpha: Node, beta: Node, seed: int, *, destination: str = DESTINATION,
        body: Callable[[int], bytes] = lambda number: b"%d %s" % (number, b"x" * (number % 200)),
        waiting_max: int = WAITING_MAX,
    ) -> None:  # fmt: skip
        """Connect to both.

        Args:
            destination: Where the sender sends on ALPHA.
            body: Of the message of a number.
            waiting_max: As of ``Sender``.
        """
        super().__init__(Judge(), seed, folder, alpha, beta)
        at_alpha, at_beta = self.managers[0], self.managers[-1]
        at_beta.create_queue(QUEUE, transactional=True)
        self.sender = Sender(
            at_alpha, destination, self.judge, self.outcome, self.history,
            chance=random.Random(f"{seed} send"), body=body, waiting_max=waiting_max,
        )  # fmt: skip
        self.receiver = Receiver(
            at_beta, QUEUE, self.judge.violations, self.outcome,
            chance=random.Random(f"{seed} receive"), received=self._received,
        )  # fmt: skip
        self.senders, self.receivers = [self.sender], [self.receiver]

    def _received(self, bodies: list[bytes]) -> None:
        numbers = [int(body.split(b" ", 1)[0]) for body in bodies]
        self.history.note("received", numbers[0], len(numbers))
        self.judge.receive(numbers, unsure=self.sender.under_way)


def run(
    *, kills: int, seed: int, folder: Path, say: Callable[[str], None] = lambda text: None,
    tls: str = "off",
) -> Outcome:  # fmt: skip
    """Do it all in a folder; both daemons are gone when this returns or raises."""
    ports = free_port(), free_port()
    alpha = Node(folder, "ALPHA", ports[0], {"BETA": ports[1]}, settings=SETTINGS)
    beta = Node(folder, "BETA", ports[1], {"ALPHA": ports[0]}, settings=SETTINGS)
    nodes = {"ALPHA": alpha, "BETA": beta}
    driver: Driver | None = None
    try:
        guids = acquaint(beta, alpha) if tls == "on" else {}
        for node in nodes.values():
            if node.process is None:
                node.start()
        driver = Driver(folder, alpha, beta, seed)
        if guids:
            allow(beta, guids["ALPHA"], queue=QUEUE)
        driver.start()
        _kill_again_and_again(nodes, driver, kills, random.Random(f"{seed} kill"), say)
        driver.drain()
        if not driver.judge.violations:
            driver.leftovers()
    finally:
        if driver is not None:
            driver.stop()
        codes = [node.kill(signal.SIGTERM) for node in nodes.values() if node.process is not None]
        if driver is not None:
            driver.close()
    outcome = driver.outcome
    outcome.kills = {name: node.kills for name, node in nodes.items()}
    outcome.restart_s_median = round(statistics.median(alpha.start_s + beta.start_s), 3)
    outcome.violations = driver.judge.violations
    outcome.violations += [f"a daemon ended with exit code {code}" for code in codes if code]
    for node in nodes.values():
        problem = data_directory.check(str(node.path)).problem
        if problem:
            outcome.violations.append(f"{node.name}: {problem}")
    return outcome


def _kill_again_and_again(
    nodes: dict[str, Node], driver: Driver, kills: int, chance: random.Random,
    say: Callable[[str], None],
) -> None:  # fmt: skip
    done = 0
    while done < kills and not driver.judge.violations:
        pause(chance.uniform(*PAUSE_S))
        victims = [nodes[chance.choice(("ALPHA", "BETA"))]]
        if done + 2 <= kills and chance.random() < 0.1:
            victims = list(nodes.values())
        for node in victims:
            node.kill()
        done += len(victims)
        pause(chance.choice((0.0, 0.0, 0.2)))
        for node in victims:
            node.start()
        say(
            f"killed {' and '.join(n.name for n in victims)} ({done} of {kills}); "
            f"{driver.judge.committed:,} committed, {driver.judge.received:,} received"
        )


def table(outcome: Outcome) -> str:
    """The result for people."""
    rows = [
        ("seed", outcome.seed),
        ("SIGKILLs", ", ".join(f"{name} {count}" for name, count in outcome.kills.items())),
        ("start, median", f"{outcome.restart_s_median} s"),
        ("transactions sent", f"{outcome.transactions:,}"),
        ("messages committed", f"{outcome.committed:,}"),
        ("commits in doubt", f"{outcome.in_doubt} ({outcome.in_doubt_committed} had happened)"),
        ("commits aborted", outcome.aborted),
        ("receives committed", f"{outcome.receives:,}"),
        ("messages received", f"{outcome.received:,}"),
        ("receives in doubt", outcome.receives_in_doubt),
        ("messages given back", f"{outcome.given_back:,}"),
        ("lost, repeated, out of order", len(outcome.violations)),
    ]
    return "\n".join(f"{name:30} {value}" for name, value in rows)


def main(arguments: list[str]) -> int:
    """The command."""
    return command(
        arguments, "kill", __doc__ or "", lambda **given: (run(**given), {}),
        lambda found, _: table(found),
        count=50, what="both queue managers", choices={"tls": ("off", "on")},
    )  # fmt: skip
