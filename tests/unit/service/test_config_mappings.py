"""The folder of mapping files: read at the start, and again when one of them has changed."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from onceq.errors import ConfigurationError
from onceq.model.http import Mappings
from onceq.model.limits import MAPPING_FILES_MAX
from onceq.service.config import MappingFolder

SECOND_US = 1_000_000


def redirection(to: str) -> str:
    return (
        f"<redirections><redirection><from>http://out/{to}</from><to>http://in/msmq/{to}</to>"
        "</redirection></redirections>"
    )


def pair(to: str) -> tuple[str, str]:
    return (f"http://out/{to}", f"http://in/msmq/{to}")


def test_no_folder_means_no_mappings(tmp_path: Path) -> None:
    folder = MappingFolder(str(tmp_path / "none"))
    assert folder.load() == Mappings()
    assert folder.files() == []


def test_files_count_in_the_order_of_their_names(tmp_path: Path) -> None:
    (tmp_path / "b.xml").write_text(redirection("b"))
    (tmp_path / "a.XML").write_text(redirection("a"))
    (tmp_path / "a.xml~").write_text("an editor's copy")
    assert MappingFolder(str(tmp_path)).load().redirections == (pair("a"), pair("b"))


def test_a_changed_file_is_read_again_and_a_broken_one_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "onceq")
    folder, file = MappingFolder(str(tmp_path)), tmp_path / "a.xml"
    file.write_text(redirection("a"))
    assert folder.load().redirections == (pair("a"),)
    now = 1
    file.write_text(redirection("other"))
    assert folder.current(now).redirections == (pair("other"),)
    file.write_text("<redirections><oops/></redirections>")
    assert folder.current(now).redirections == (pair("other"),), "it looks once in a second"
    now += SECOND_US
    assert folder.current(now).redirections == (pair("other"),)
    assert "<oops> is not known" in caplog.text
    assert "a.xml" in caplog.text
    caplog.clear()
    now += SECOND_US
    assert folder.current(now).redirections == (pair("other"),)
    assert not caplog.records, "a fault is told once"
    file.unlink()
    assert folder.current(now + SECOND_US) == Mappings()
    assert "mapping files were read" in caplog.text


def test_a_start_with_a_broken_file_is_refused_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text("<mapping><queue/></mapping>")
    with pytest.raises(ConfigurationError, match=r"a\.xml: an entry <queue> has no <alias>"):
        MappingFolder(str(tmp_path)).load()
    (one,) = MappingFolder(str(tmp_path)).files()
    assert one.content is None
    assert "no <alias>" in one.problem


def test_too_many_files_and_too_large_ones_are_refused(tmp_path: Path) -> None:
    (tmp_path / "large.xml").write_bytes(b" " * ((1 << 20) + 1))
    with pytest.raises(ConfigurationError, match="more than 1048576 bytes"):
        MappingFolder(str(tmp_path)).load()
    for number in range(MAPPING_FILES_MAX):
        (tmp_path / f"{number}.xml").touch()
    with pytest.raises(ConfigurationError, match="at most 256 are read"):
        MappingFolder(str(tmp_path)).load()
