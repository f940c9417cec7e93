"""Print a software bill of materials of this environment, as CycloneDX 1.6 JSON.

`make setup` keeps pip's reports in the environment: which file each package came from, and its
hash. A package that no report knows in the version that is installed is an error; a report that
pip did not finish, because something failed, says nothing.
"""

import json
import re
import sys
import uuid
from importlib.metadata import distributions, version
from pathlib import Path
from typing import Any

REQUIREMENT = re.compile(r"[A-Za-z0-9._-]+")


def normal(name: str) -> str:
    """Return the name as package indexes spell it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def purl(metadata: dict[str, Any]) -> str:
    """Return the package URL, by which the other entries refer to the package."""
    return f"pkg:pypi/{normal(metadata['name'])}@{metadata['version'].replace('+', '%2B')}"


def component(item: dict[str, Any]) -> dict[str, Any]:
    """Return the entry of one package."""
    metadata, source = item["metadata"], item["download_info"]
    digest = source["archive_info"]["hashes"]["sha256"]
    entry: dict[str, Any] = {
        "type": "library",
        "bom-ref": purl(metadata),
        "name": metadata["name"],
        "version": metadata["version"],
        "purl": purl(metadata),
        "hashes": [{"alg": "SHA-256", "content": digest}],
    }
    if expression := metadata.get("license_expression"):
        entry["licenses"] = [{"expression": expression}]
    elif text := metadata.get("license", "").strip().partition("\n")[0]:
        entry["licenses"] = [{"license": {"name": text}}]
    if source["url"].startswith("https://"):
        entry["externalReferences"] = [{"type": "distribution", "url": source["url"]}]
    return entry


def depends_on(metadata: dict[str, Any], known: dict[str, str]) -> list[str]:
    """Return the packages of the environment that a package asks for, without its extras."""
    wanted = [text for text in metadata.get("requires_dist", ()) if "extra ==" not in text]
    names = {normal(found[0]) for text in wanted if (found := REQUIREMENT.match(text))}
    return sorted(known[name] for name in names if name in known)


def bill(items: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the bill of materials of the packages, as pip reported them."""
    known = {normal(item["metadata"]["name"]): purl(item["metadata"]) for item in items}
    components = [component(item) for item in items]
    content = json.dumps(components, sort_keys=True)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        # The same packages give the same bill, to the last byte.
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, content)}",
        "version": 1,
        "metadata": {"component": {"type": "application", "name": "unisono", **ours()}},
        "components": components,
        "dependencies": [
            {"ref": purl(item["metadata"]), "dependsOn": depends_on(item["metadata"], known)}
            for item in items
        ],
    }


def ours() -> dict[str, str]:
    """Return our own version."""
    return {"version": version("unisono"), "bom-ref": f"pkg:pypi/unisono@{version('unisono')}"}


def installed(reports: Path) -> list[dict[str, Any]]:
    """Return what the reports say of each package that is installed here."""
    paths = sorted(reports.glob("*.json"), key=lambda path: path.stat().st_mtime)
    items = [item for path in paths for item in _whole(path)]
    known = {(normal(i["metadata"]["name"]), i["metadata"]["version"]): i for i in items}
    here = {(normal(found.name), found.version) for found in distributions()}
    here.discard(("unisono", version("unisono")))
    if unknown := sorted(here - known.keys()):
        names = ", ".join(f"{name} {number}" for name, number in unknown)
        sys.exit(f"error: `make setup` did not install {names}; `make clean setup` starts anew")
    return [known[key] for key in sorted(here)]


def _whole(report: Path) -> list[dict[str, Any]]:
    """Return what a report says was installed; nothing, if pip was interrupted."""
    try:
        found: list[dict[str, Any]] = json.loads(report.read_text())["install"]
    except ValueError:
        return []
    return found


if __name__ == "__main__":
    print(json.dumps(bill(installed(Path(sys.prefix) / "reports")), indent=2))
