"""A border server between two networks: ``python -m examples.border``.

CUSTOMER is outside, INSIDE in the inner network, BORDER reaches both. CUSTOMER knows one address,
www.example.com; INSIDE is reached by BORDER only, and reaches nobody else. Orders go in and
answers come out, once and in order, each with its receipts; the mapping files of the two folders
beside this file are all that it takes. Everything runs in this process, on free ports of this
computer.
"""

from __future__ import annotations

import shutil
import socket
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parents[1] / "src")]

import onceq  # noqa: E402

ORDERS, ANSWERS = r"private$\orders", r"private$\answers"
TO_ORDERS = "DIRECT=HTTP://www.example.com/msmq/orders"
TO_ANSWERS = "DIRECT=HTTP://customer.example/msmq/private$/answers"
WAIT_S = 60.0
COUNT = 5


@dataclass
class Host:
    """A computer: its names over HTTP, and the names that it can find others by."""

    name: str
    http_names: tuple[str, ...]
    reaches: tuple[str, ...]
    port: int = field(default=0)

    def prepare(self, folder: Path, found: dict[str, int]) -> Path:
        """Make its data directory with a configuration and its mapping files."""
        path = folder / self.name.lower()
        path.mkdir()
        mine = ", ".join(f'"{name}"' for name in self.http_names)
        peers = "".join(f'"http://{n}" = "127.0.0.1:{found[n]}"\n' for n in self.reaches)
        (path / "onceq.toml").write_text(
            f'name = "{self.name}"\nlisten = ""\nhttp_listen = "127.0.0.1:{self.port}"\n'
            f"http_names = [{mine}]\n[peers]\n{peers}"
            "[settings]\norder_ack_delay_s = 0.02\nconnect_retry_s = 0.2\n"
        )
        if (HERE / self.name.lower()).is_dir():
            shutil.copytree(HERE / self.name.lower(), path / "mapping")
        return path


def free_port() -> int:
    """A port of this computer that nobody uses."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def hosts() -> tuple[Host, Host, Host]:
    """Who there is, and who reaches whom."""
    made = (
        Host("CUSTOMER", ("customer.example",), ("www.example.com",)),
        Host("BORDER", ("www.example.com", "border.lan"), ("inside.lan", "customer.example")),
        Host("INSIDE", ("inside.lan",), ("border.lan",)),
    )
    for host in made:
        host.port = free_port()
    return made


def serve(inside: onceq.QueueManager) -> None:
    """Answer each order in the transaction that takes it."""
    for _ in range(COUNT):
        with inside.transaction() as tx:
            order = tx.receive(ORDERS, timeout=WAIT_S)
            tx.send(TO_ANSWERS, f"done: {order.text}")


def main() -> int:
    """Run it; returns the exit code."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="onceq-border-")))
        made = hosts()
        found = {name: host.port for host in made for name in host.http_names}
        customer, border, inside = (
            stack.enter_context(onceq.open(str(host.prepare(folder, found)), create=True))
            for host in made
        )
        inside.create_queue(ORDERS, transactional=True)
        customer.create_queue(ANSWERS, transactional=True)
        with customer.transaction() as tx:
            tx.send_many(TO_ORDERS, [f"order {number}" for number in range(COUNT)])
        serve(inside)
        answers: list[str] = []
        while len(answers) < COUNT:
            got = customer.receive_many(ANSWERS, COUNT - len(answers), timeout=WAIT_S)
            answers += [message.text for message in got]
        for text in answers:
            print(text)
        if answers != [f"done: order {number}" for number in range(COUNT)]:
            print("not once and in order")
            return 1
        if any(queue.messages for queue in border.queues()):
            print("something has stayed at the border")
            return 1
        print(f"{COUNT} orders in and {COUNT} answers out, once and in order, over the border")
    return 0


if __name__ == "__main__":
    sys.exit(main())
