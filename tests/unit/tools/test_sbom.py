"""The bill of materials of a release: each package that an install takes, and who needs it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import sbom
from lock import CONTAINER, blocks, pins


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    path = tmp_path / "onceq-1.2.3-py3-none-any.whl"
    path.write_bytes(b"a wheel")
    (tmp_path / "onceq-1.2.3.tar.gz").write_bytes(b"a source package")
    return path


def test_it_has_every_package_of_the_lock_with_the_hashes_of_its_files(wheel: Path) -> None:
    made = sbom.bill(wheel, "1.2.3")
    assert (made["bomFormat"], made["specVersion"], made["version"]) == ("CycloneDX", "1.6", 1)
    assert re.fullmatch(r"urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", made["serialNumber"])
    text = CONTAINER.read_text()
    assert {one["name"]: one["version"] for one in made["components"]} == pins(text)
    for one in made["components"]:
        assert one["purl"] == f"pkg:pypi/{one['name']}@{one['version']}" == one["bom-ref"]
        (distribution,) = one["externalReferences"]
        hashes = [one["content"] for one in distribution["hashes"]]
        block = blocks(text)[one["name"]]
        assert hashes
        assert block.count("--hash=sha256:") == len(hashes)
        assert all(f"--hash=sha256:{digest}" in block for digest in hashes)
        assert one["licenses"], f"{one['name']} says no licence"


def test_each_package_is_needed_by_onceq_or_by_one_that_it_needs(wheel: Path) -> None:
    made = sbom.bill(wheel, "1.2.3")
    own = made["metadata"]["component"]["bom-ref"]
    graph = {one["ref"]: one["dependsOn"] for one in made["dependencies"]}
    assert set(graph) == {own, *(one["bom-ref"] for one in made["components"])}
    reached: set[str] = set()
    todo = [own]
    while todo:
        ref = todo.pop()
        if ref not in reached:
            reached.add(ref)
            todo += graph[ref]
    for_other_pythons = {ref for ref in set(graph) - reached if "typing-extensions" in ref}
    assert reached | for_other_pythons == set(graph)


def test_the_same_wheel_has_the_same_bill_and_another_one_another(wheel: Path) -> None:
    one, again = (json.dumps(sbom.bill(wheel, "1.2.3")) for _ in range(2))
    assert one == again
    wheel.write_bytes(b"another wheel")
    other = sbom.bill(wheel, "1.2.3")
    assert other["serialNumber"] != json.loads(one)["serialNumber"]


def test_checksums_are_those_that_the_usual_tool_takes(wheel: Path) -> None:
    source = wheel.with_name("onceq-1.2.3.tar.gz")
    path, sums = sbom.write(wheel, source)
    lines = sums.read_text().splitlines()
    assert [line.partition("  ")[2] for line in lines] == sorted(
        one.name for one in (wheel, source, path)
    )
    assert all(re.fullmatch(r"[0-9a-f]{64}  \S+", line) for line in lines)
