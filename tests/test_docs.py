"""The documentation: links, index and names are right, and generated pages are up to date."""

import re
from pathlib import Path

from test_architecture import FORMATS, FOUNDATION, MAY_IMPORT, PARTS
from unisono.cli import VERBS
from unisono.cli.reference import reference

ROOT = Path(__file__).parents[1]
DOCS, SOURCE = ROOT / "docs", ROOT / "src" / "unisono"
SHELVES = ("first-steps", "how-to", "explanations", "reference")
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *ROOT.glob("examples/*/*.md")])


def test_the_page_of_commands_is_up_to_date():
    shown = (ROOT / "docs" / "reference" / "commands.md").read_text("utf-8")
    assert shown == reference(), "run `make docs`"


def test_every_verb_is_on_the_page():
    for verb in VERBS:
        assert f"## unisono {verb}" in reference()


def test_no_page_points_to_a_file_that_is_not_there():
    for page in PAGES:
        for link in re.findall(r"\]\((?!http)([^)#]+)(?:#[^)]*)?\)", page.read_text("utf-8")):
            assert (page.parent / link).exists(), f"{page.name}: {link}"


def test_links_to_a_section_name_one_that_is_there():
    for page in PAGES:
        links = re.findall(r"\]\((?!http)([^)#]*)#([^)]+)\)", page.read_text("utf-8"))
        for link, anchor in links:
            target = page.parent / link if link else page
            assert anchor in anchors(target), f"{page.name}: {link}#{anchor}"


def anchors(page):
    """Return the anchors of a page's headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_every_page_says_first_who_needs_it():
    for page in DOCS.rglob("*.md"):
        title, who, *_ = filter(None, page.read_text("utf-8").splitlines())
        assert title.startswith("# "), page
        assert re.fullmatch(r"\*For .+[.:]\*", who), f"{page}: {who}"


def test_every_page_is_in_the_index_and_every_shelf_is_one_of_four():
    index = (DOCS / "README.md").read_text("utf-8")
    for page in DOCS.rglob("*.md"):
        name = page.relative_to(DOCS).as_posix()
        assert name == "README.md" or f"]({name})" in index, name
        assert "/" not in name or name.split("/")[0] in SHELVES


CODE_PAGES = (DOCS / "architecture.md", DOCS / "glossary.md", ROOT / "CONTRIBUTING.md")


def test_pages_about_the_code_name_files_that_are_there():
    for page in CODE_PAGES:
        text = page.read_text("utf-8")
        for path, name in re.findall(r"(\w[\w/]*/\w+\.py)(?:(?:<br/>| )(\w+))?", text):
            found = [place / path for place in (ROOT, SOURCE) if (place / path).is_file()]
            assert found, f"{page.name}: {path}"
            defines = re.search(rf"^(class|def) {name}\b", found[0].read_text(), re.MULTILINE)
            assert not name or defines, f"{page.name}: {path} has no {name}"
        for path in re.findall(r"`((?:src|tests|docs)/[\w/.-]*)`", text):
            assert (ROOT / path).exists(), f"{page.name}: {path}"
        for name in re.findall(r"`(unisono(?:\.\w+)+)`", text):
            module = ROOT / "src" / name.replace(".", "/")
            assert module.is_dir() or module.with_suffix(".py").is_file(), (
                f"{page.name}: {name}"
            )


def test_the_import_table_of_the_architecture_names_every_package():
    text = (DOCS / "architecture.md").read_text("utf-8")
    for package in SOURCE.iterdir():
        if (package / "__init__.py").is_file():
            assert f"`{package.name}`" in text, package.name


def test_the_import_table_of_the_architecture_is_the_one_that_is_checked():
    text = (DOCS / "architecture.md").read_text("utf-8")
    rows = text.partition("| package | may import")[2].partition("\n\n")[0].splitlines()[2:]
    for row in rows:
        packages, imports = (set(re.findall(r"`(\w+)`", cell)) for cell in row.split("|")[1:3])
        imports |= FORMATS if "all formats" in row else set()
        imports |= PARTS if "all parts" in row else set()
        for package in packages:
            allowed = MAY_IMPORT[package] - FOUNDATION
            assert imports == allowed or "everything" in row, package


def test_the_glossary_is_short():
    terms = re.findall(r"^\| (?!term )[A-Za-z].*\|$", CODE_PAGES[1].read_text("utf-8"), re.M)
    assert 0 < len(terms) <= 30


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 200


def test_no_page_names_a_file_that_is_not_there():
    for page in (*DOCS.rglob("*.md"), ROOT / "CONTRIBUTING.md", ROOT / "README.md"):
        text = page.read_text("utf-8")
        for path in re.findall(r"`((?:src|tests|benchmarks|configs|examples)/[\w./-]+)`", text):
            assert (ROOT / path).exists(), f"{page.name}: {path}"


def test_the_code_names_pages_that_are_there():
    for path in (*SOURCE.rglob("*.py"), *ROOT.glob("configs/*.toml"), ROOT / "Makefile"):
        for page in re.findall(r"\bdocs/[\w/-]+\.md", path.read_text("utf-8")):
            assert (ROOT / page).is_file(), f"{path.name}: {page}"
