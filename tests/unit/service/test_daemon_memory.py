"""Large blocks stay with the process: the system does not make the same pages again and again."""

from __future__ import annotations

import ctypes
import platform
import subprocess
import sys

import pytest

COUNT = """
import resource
from onceq.service.daemon import keep_large_blocks

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(5):
        bytearray(20 << 20)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

assert keep_large_blocks()
faults()
print(faults())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc is told")
def test_a_large_block_is_used_again() -> None:
    """Five times 20 MiB are 25,600 pages of 4 KiB."""
    said = subprocess.run(
        [sys.executable, "-c", COUNT], capture_output=True, text=True, check=True, timeout=60
    )
    assert int(said.stdout) < 2_560


def test_another_c_library_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    from onceq.service import daemon

    monkeypatch.setattr(platform, "libc_ver", lambda: ("", ""))
    monkeypatch.setattr(ctypes, "CDLL", lambda name: pytest.fail("asked for it"))
    assert not daemon.keep_large_blocks()


def test_what_the_start_has_made_is_not_looked_at_again() -> None:
    code = (
        "import gc; from onceq.service.daemon import YOUNG_OBJECTS, collect_seldom; "
        "kept = [[] for _ in range(10_000)]; collect_seldom(); "
        "print(gc.get_freeze_count() > 10_000, gc.get_threshold()[0] == YOUNG_OBJECTS, "
        "gc.isenabled())"
    )
    said = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert said.stdout.split() == ["True"] * 3
