"""Names of queues in the sink: those of the source, and what can lead nowhere."""

from __future__ import annotations

import pytest

from onceq.errors import ConfigurationError, IllegalFormatName
from onceq.spark.sink.options import name_there, parse_sink, place_of, sink_of

HERE = "127.0.0.1:2812"
Q = r"private$\orders"


@pytest.mark.parametrize(
    ("address", "name"),
    [
        (HERE, f"{HERE}/{Q}"),
        (HERE, f"onceq://{HERE}/{Q}"),
        (f"onceq://{HERE}", f"{HERE}/{Q}"),
        (f"tls://{HERE}", f"tls://{HERE}/{Q}"),
        (f"tls://{HERE}", f"{HERE}/{Q}"),
        ("./hub", f"./hub/{Q}"),
        ("unix:///run/onceq.sock", f"unix:///run/onceq.sock/{Q}"),
        (HERE, Q),
    ],
)
def test_a_queue_of_the_queue_manager_is_named_as_in_the_source(address: str, name: str) -> None:
    assert name_there(address, name) == Q
    assert sink_of(address, name) == ((address,), Q)


@pytest.mark.parametrize(
    "name",
    [
        r"BETA\private$\orders", "BETA/private$/orders", r"DIRECT=OS:BETA\private$\orders",
        r"DIRECT=TCP:10.0.0.1\private$\orders", r"DIRECT=TCP:::1\private$\orders",
        r"DIRECT=OS:.\private$\a,DIRECT=OS:BETA\private$\b", "DIRECT=HTTP://beta:80/msmq/orders",
        "DL=5bc7a48e-43d6-4433-8e9d-a2a8bd2ae9ff", "orders", "DIRECT=NONSENSE:x", "",
    ],
)  # fmt: skip
def test_names_of_queue_managers_are_left_alone(name: str) -> None:
    assert name_there(HERE, name) == name
    assert name_there("hub", name) == name
    assert name_there("BETA", name) == name, "a directory called as a computer"


@pytest.mark.parametrize(
    "name",
    [
        r"127.0.0.1:2813/private$\s3",
        r"127.0.0.1:2813\private$\s3",
        r"onceq://10.0.0.1:2812/private$\s3",
        r"tls://10.0.0.1:2812/private$\s3",
        r"beta:1801/private$\s3",
        r"DIRECT=OS:beta:1801\private$\s3",
        r"DIRECT=OS:.\private$\a,DIRECT=OS:beta:1801\private$\s3",
        r"unix:///run/other.sock/private$\s3",
        f"{HERE}/",
    ],
)
def test_0_8_an_address_for_a_computer_is_refused_before_it_waits_for_days(name: str) -> None:
    with pytest.raises(IllegalFormatName, match="would wait until they expire"):
        name_there(HERE, name)
    for option in ("queue", "errorQueue"):
        given = {"queueManager": HERE, "queue": Q, option: name}
        with pytest.raises(ConfigurationError, match=rf"\[configuration\] {option}: .*{HERE}/NAME"):
            parse_sink(given, stream=True)


def test_several_queue_managers_and_which_of_them_is_meant() -> None:
    there = "127.0.0.1:2813"
    both = (HERE, there)
    for queue in (Q, rf"{there}/{Q}", rf"onceq://{there}/{Q}", ""):
        assert sink_of(f"{HERE}, onceq://{there}", queue) == ((HERE, f"onceq://{there}"), queue)
    assert sink_of(f"{HERE},{HERE}", Q) == ((HERE,), Q)
    assert [place_of(both, name) for name in (Q, rf"{HERE}/{Q}", rf"onceq://{there}/{Q}")] == [
        -1, 0, 1
    ]  # fmt: skip
    with pytest.raises(IllegalFormatName, match="wait until they expire"):
        place_of(both, rf"127.0.0.1:2814/{Q}")
    with pytest.raises(ConfigurationError, match=f"goes through {HERE}, {there}"):
        sink_of(",".join(both), rf"127.0.0.1:2814/{Q}")


def test_a_url_says_it_alone() -> None:
    options = parse_sink({"path": rf"onceq://{HERE}/{Q}"}, stream=False)
    assert (options.manager, options.queue) == (f"onceq://{HERE}", Q)
    secure = parse_sink({"path": rf"tls://{HERE}/{Q}"}, stream=False)
    assert (secure.manager, secure.queue) == (f"tls://{HERE}", Q)
    for scheme in ("onceq", "tls"):
        for bad in (f"{scheme}://{HERE}", f"{scheme}:///x", f"{scheme}://{HERE}/"):
            with pytest.raises(ConfigurationError, match=f"is not {scheme}://host:port/queue"):
                sink_of("", bad)
    with pytest.raises(ConfigurationError, match="say where the queue manager is"):
        sink_of("", rf"{HERE}/{Q}")
