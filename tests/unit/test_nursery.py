"""What the nursery starts is as what ``subprocess`` starts: each case is asked of both."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import nursery

pytestmark = pytest.mark.slow

WAIT_S = 60
LOOK = """
import json, os, resource, signal, sys, threading, time
here = os.getpid()
print(json.dumps({
    "arguments": sys.argv, "all": sys.orig_argv, "name": __name__, "path": sys.path,
    "environment": dict(os.environ), "folder": os.getcwd(), "timezone": time.tzname,
    "input": sys.stdin.read(),
    "files": sorted(map(int, os.listdir("/proc/self/fd")))[:-1],
    "signals": [str(signal.getsignal(n)) for n in sorted(signal.valid_signals())],
    "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
    "umask": os.umask(0), "limits": resource.getrlimit(resource.RLIMIT_NOFILE),
    "session": os.getsid(0) == here, "group": os.getpgid(0) == here,
    "threads": threading.active_count(),
    "streams": [
        [s.encoding, s.errors, s.line_buffering, s.write_through, s.newlines, s.fileno(), s.mode]
        for s in (sys.stdin, sys.stdout, sys.stderr)
    ],
}))
"""


def both(command: list[str], **how: Any) -> list[subprocess.CompletedProcess[str]]:
    """What came of a command, by each way to start it."""
    # Without an environment a process would inherit what the readline of pytest has set in C.
    usual = {"input": "", "capture_output": True, "text": True, "timeout": WAIT_S}
    how = {"env": dict(os.environ), **usual, **how}
    ways: list[Callable[..., Any]] = [subprocess.run, nursery.run]
    return [way([sys.executable, *command], **how) for way in ways]


def look(command: list[str], **how: Any) -> list[dict[str, Any]]:
    """What the program LOOK sees, by each way."""
    return [json.loads(done.stdout) for done in both(command, **how)]


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"input": "two\nlines\n"},
        {"cwd": "/"},
        {"env": {"TZ": "Asia/Tokyo", "PYTHONPATH": f"{nursery.ROOT}/src:{nursery.ROOT}"}},
        {"start_new_session": True},
        {"process_group": 0},
    ],
    ids=lambda how: next(iter(how), "nothing"),
)
def test_a_text_sees_the_same(how: dict[str, Any]) -> None:
    if "env" in how:
        kept = {name: os.environ[name] for name in os.environ if name.startswith(nursery.READ_ONCE)}
        how["env"] = {**kept, **how["env"]}
    really, here = look(["-c", LOOK, "one", "--two"], **how)
    assert here == really


def test_a_script_and_a_module_see_the_same(tmp_path: Path) -> None:
    script = tmp_path / "look.py"
    script.write_text(LOOK)
    for command in ([str(script), "-x"], ["-m", "look", "-x"]):
        really, here = look(command, cwd=tmp_path)
        assert here == really


def test_what_the_test_worker_has_is_inherited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    monkeypatch.setenv("ONCEQ_A", "b")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    mask = os.umask(0o027)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft - 1, hard))
    try:
        really, here = look(["-c", LOOK])
    finally:
        os.umask(mask)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert here == really
    assert (here["umask"], here["folder"], here["limits"][0]) == (0o027, "/", soft - 1)
    assert here["environment"]["ONCEQ_A"] == "b"


@pytest.mark.parametrize(
    "text",
    [
        "pass",
        "import sys; sys.exit()",
        "import sys; sys.exit(3)",
        "import sys; sys.exit(-1)",
        "import sys; sys.exit('a reason')",
        "import sys; sys.exit(False)",
        "import os; os._exit(4)",
        "import os; os.kill(os.getpid(), 9)",
        "import os, signal; signal.signal(2, signal.SIG_DFL); os.kill(os.getpid(), 2)",
        "import atexit; atexit.register(print, 'at the end')",
        "import os, sys; os.close(1); print('lost')",
        "import threading, time; threading.Thread(target=lambda: print('a thread')).start()",
        "import concurrent.futures as c; print(c.ThreadPoolExecutor().submit(abs, -1).result())",
        "import sys; sys.stdout.write('unfinished'); sys.stderr.write('errors')",
    ],
)
def test_it_ends_the_same(text: str) -> None:
    really, here = both(["-c", text])
    assert (here.returncode, here.stdout) == (really.returncode, really.stdout)
    assert ("lost" in text) or here.stderr == really.stderr


@pytest.mark.parametrize("text", ["1 / 0", "raise KeyboardInterrupt", "syntax error"])
def test_a_failure_is_told_the_same(text: str) -> None:
    really, here = both(["-c", text])
    assert here.returncode == really.returncode
    assert here.stderr.splitlines()[-1] == really.stderr.splitlines()[-1]


def test_each_draws_its_own_random_numbers() -> None:
    text = "import random, secrets, uuid; print(random.random(), secrets.token_hex(), uuid.uuid4())"
    said = [nursery.run([sys.executable, "-c", text], capture_output=True).stdout for _ in "ab"]
    assert not set(said[0].split()) & set(said[1].split())


def test_signals_reach_it_and_waits_have_an_end() -> None:
    text = "import signal; print('here', flush=True); signal.pause()"
    for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGINT):
        with nursery.Popen(
            [sys.executable, "-c", text], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"here\n"
            assert process.poll() is None
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0.01)
            process.send_signal(number)
            assert process.wait(WAIT_S) == process.poll() == -number
        process.kill()
    assert not Path(f"/proc/{process.pid}").exists(), "it is no zombie"


def test_a_pipe_ends_with_the_process_and_not_with_the_nursery() -> None:
    echo = [sys.executable, "-c", "import sys; print(sys.stdin.read())"]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with nursery.Popen(echo, **pipes) as first, nursery.Popen(echo, **pipes) as other:
        assert first.communicate("said", timeout=WAIT_S)[0] == "said\n"
        other.kill()


def test_what_it_cannot_start_is_refused(tmp_path: Path) -> None:
    for command, how in (
        (["/bin/true"], {}),
        ([sys.executable, "-O", "-c", ""], {}),
        ([sys.executable, "-c", ""], {"env": {**os.environ, "PYTHONIOENCODING": "latin-1"}}),
        ([sys.executable, "-c", ""], {"env": {**os.environ, "PYTHONPATH": str(tmp_path)}}),
        ([sys.executable, "-c", ""], {"preexec_fn": os.getpid}),
    ):
        with pytest.raises(ValueError, match=r"."):
            nursery.run(command, **how)
    with pytest.raises(FileNotFoundError):
        nursery.run([sys.executable, "-c", ""], cwd=tmp_path / "none")


def test_an_own_module_is_not_what_it_is_as_a_program() -> None:
    text = "import sys; m = sys.modules; print('__main__' in m, 'onceq.cli.main' in m)"
    done = nursery.run([sys.executable, "-m", "onceq.cli.main", "--version"], capture_output=True)
    assert done.stdout.startswith(b"onceq ")
    assert nursery.run([sys.executable, "-c", text], capture_output=True).stdout == b"True True\n"


def test_a_child_of_the_test_worker_has_a_nursery_of_its_own() -> None:
    nursery.run([sys.executable, "-c", ""])
    text = """
import os, sys
from tests import nursery
first = nursery.Popen([sys.executable, "-c", "input()"], stdin=-1)
mother = nursery._nursery._process.pid
child = os.fork()
if not child:
    code = first.poll()
    nursery.run([sys.executable, "-c", ""], check=True)
    same = nursery._nursery._process.pid == mother
    nursery._close()
    os._exit(3 if code is None and not same else 4)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
first.communicate(b"")
assert first.returncode == 1, first.returncode
print(mother)
"""
    done = subprocess.run(
        [sys.executable, "-c", text], cwd=nursery.ROOT, stdout=subprocess.PIPE, check=True,
        stderr=subprocess.DEVNULL, timeout=WAIT_S,
    )  # fmt: skip
    assert not Path(f"/proc/{done.stdout.decode().strip()}").exists(), "it ended with its worker"
