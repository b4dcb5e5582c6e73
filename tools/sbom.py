"""What a release consists of: a bill of materials (CycloneDX 1.6, JSON), and checksums.

The bill names the wheel and what an install with the extras of the image takes: in the versions
that ``packaging/container/requirements.lock`` pins, with licences, with the SHA-256 of every file
that each may be installed from, and with who needs whom. It is written from that lock file and from
the metadata of what is installed here, which tests compare.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import re
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from lock import CONTAINER, CONTAINER_EXTRAS, blocks, pins

SUMS = "SHA256SUMS"


def digest(path: Path) -> str:
    """SHA-256 of a file, hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def needed(name: str, extras: Iterable[str], known: Iterable[str]) -> list[str]:
    """Which of the known packages another one needs itself."""
    found = set()
    for text in importlib.metadata.requires(name) or ():
        one = Requirement(text)
        wanted = one.marker is None or any(
            one.marker.evaluate({"extra": extra}) for extra in ("", *extras)
        )
        if wanted:
            found.add(canonicalize_name(one.name))
    return sorted(found & set(known))


def licence(name: str) -> list[dict[str, Any]]:
    """The licence of an installed package as CycloneDX says it; [] if it names none."""
    metadata = importlib.metadata.metadata(name)
    if "License-Expression" in metadata:
        return [{"expression": metadata["License-Expression"]}]
    classified = [
        one.rpartition(" :: ")[2]
        for one in metadata.get_all("Classifier") or ()
        if one.startswith("License :: ")
    ]
    return [{"license": {"name": one}} for one in classified]


def purl(name: str, version: str) -> str:
    """The name of a package that tools compare with advisories."""
    return f"pkg:pypi/{name}@{version}"


def bill(wheel: Path, version: str) -> dict[str, Any]:
    """The bill of materials of a wheel."""
    lock = CONTAINER.read_text(encoding="utf-8")
    pinned = pins(lock)
    hashes = {
        name: re.findall(r"--hash=sha256:([0-9a-f]{64})", block)
        for name, block in blocks(lock).items()
    }
    own = purl("onceq", version)
    reference = {name: purl(name, pin) for name, pin in pinned.items()}
    components = [
        {
            "type": "library", "bom-ref": reference[name], "name": name, "version": pin,
            "purl": reference[name], "licenses": licence(name),
            "externalReferences": [
                {
                    "type": "distribution", "url": reference[name],
                    "hashes": [{"alg": "SHA-256", "content": one} for one in hashes[name]],
                }
            ],
        }
        for name, pin in pinned.items()
    ]  # fmt: skip
    whole = digest(wheel)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        # The same wheel has the same bill, byte for byte.
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, own + '#' + whole)}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application", "bom-ref": own, "name": "onceq", "version": version,
                "purl": own, "licenses": licence("onceq"),
                "hashes": [{"alg": "SHA-256", "content": whole}],
            },
        },
        "components": components,
        "dependencies": [
            {"ref": own, "dependsOn": [
                reference[name] for name in needed("onceq", CONTAINER_EXTRAS, pinned)]},
            *({"ref": reference[name],
               "dependsOn": [reference[other] for other in needed(name, (), pinned)]}
              for name in pinned),
        ],
    }  # fmt: skip


def write(wheel: Path, source: Path) -> tuple[Path, Path]:
    """Write the bill beside a wheel, and the checksums of all that is published."""
    version = wheel.name.split("-")[1]
    path = wheel.with_name(f"onceq-{version}.cdx.json")
    path.write_text(json.dumps(bill(wheel, version), indent=1) + "\n", encoding="utf-8")
    sums = wheel.with_name(SUMS)
    lines = [f"{digest(one)}  {one.name}\n" for one in sorted((wheel, source, path))]
    sums.write_text("".join(lines), encoding="utf-8")
    return path, sums
