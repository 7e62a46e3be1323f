"""Set one version everywhere, or check that it is one: the packages move in lockstep.

python tools/bump.py 1.1.0          set it
python tools/bump.py --check        compare versions and pins, look over the changelog
python tools/bump.py --check v1.1.0 the same before a release: is it ready for this tag?
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
VERSION = r"\d+\.\d+\.\d+(?:(?:a|b|rc|\.dev)\d+)?"
OWN = re.compile(r'^version = "(.*)"$', re.MULTILINE)
PIN = re.compile(r'"(grain-[a-z]+(?:\[[a-z]+\])?)==([^"]*)"')
CITED = re.compile(r"^version: (.*)$", re.MULTILINE)
# Files in changes/ that are not fragments.
OTHERS = {"README.md", "template.md.jinja"}


def projects() -> list[Path]:
    """Return the pyproject.toml of the metapackage and of each package."""
    return [ROOT / "pyproject.toml", *sorted(ROOT.glob("packages/*/pyproject.toml"))]


def bump(version: str) -> None:
    """Rewrite every version and every pin on a sibling."""
    for file in projects():
        text = OWN.sub(f'version = "{version}"', file.read_text())
        file.write_text(PIN.sub(rf'"\1=={version}"', text))
    citation = ROOT / "CITATION.cff"
    citation.write_text(CITED.sub(f"version: {version}", citation.read_text()))


def versions() -> dict[str, str]:
    """Return every version that is written somewhere, by the place."""
    places = {"CITATION.cff": CITED.findall((ROOT / "CITATION.cff").read_text())[0]}
    for file in projects():
        text = file.read_text()
        name = str(file.relative_to(ROOT))
        places[name] = OWN.findall(text)[0]
        places |= {f"{name}, {sibling}": pin for sibling, pin in PIN.findall(text)}
    return places


def fragments() -> list[Path]:
    """Return the files in changes/ that are to be fragments of the changelog."""
    files = (file for file in ROOT.glob("changes/**/*") if file.is_file())
    return sorted(file for file in files if file.name not in OTHERS)


def malformed(fragment: Path) -> str | None:
    """Return what is wrong with a fragment, if anything."""
    settings = (ROOT / "pyproject.toml").read_text()
    folder, *rest = fragment.relative_to(ROOT / "changes").parts
    if len(rest) != 1 or f'{{ path = "{folder}",' not in settings:
        return "is not in the folder of a package"
    if not re.fullmatch(r"(\+[\w-]+|\d+)\.(added|changed|fixed)\.md", rest[0]):
        return "is not named +WORDS.TYPE.md or NUMBER.TYPE.md with added, changed or fixed"
    if not re.match(r"[A-Z`*].*[.)]\n\Z", fragment.read_text(), re.DOTALL):
        return "is not a sentence"
    return None


def problems(tag: str | None) -> list[str]:
    """Return one line for each thing that does not fit; for a tag, also what is to be done."""
    version = OWN.findall((ROOT / "pyproject.toml").read_text())[0]
    out = [f"{at}: {it}, not {version}" for at, it in versions().items() if it != version]
    for fragment in fragments():
        wrong = malformed(fragment)
        out += [f"{fragment.relative_to(ROOT)} {wrong}; see changes/README.md"] if wrong else []
    sections = re.findall(r"^## (\S+) \((.*)\)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    titles = [name for name, _ in sections]
    out += [f"CHANGELOG.md: {name} twice" for name in set(titles) if titles.count(name) > 1]
    if version not in titles and not fragments():
        out.append(f"CHANGELOG.md: no section {version}, and no fragments in changes")
    if tag is not None:
        date = dict(sections).get(version, "none")
        if tag != f"v{version}":
            out.append(f"the tag {tag} is not v{version}")
        if not re.fullmatch(r"\d{4}-\d\d-\d\d", date):
            out.append(f"CHANGELOG.md: the section {version} has no date: {date}")
        if fragments():
            out.append(f"changes: {len(fragments())} fragments are left; run towncrier build")
    return out


def main(words: list[str]) -> str | None:
    """Do what the command line says; return what is wrong, for the exit status."""
    if words[:1] == ["--check"] and len(words) <= 2:
        faults = problems(words[1] if words[1:] else None)
        if not faults:
            print("one version, and a changelog")
        return "\n".join(faults) or None
    if len(words) != 1 or not re.fullmatch(VERSION, words[0]):
        return "usage: python tools/bump.py VERSION   (as in 1.1.0 or 1.1.0rc1), or --check [TAG]"
    bump(words[0])
    print(f"version {words[0]}; now reinstall (nox does), and run towncrier build")
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
