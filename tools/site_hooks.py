"""Hooks of MkDocs (mkdocs.yml).

The navigation follows the folders of docs/. The site also has the files outside docs/ to which its pages link, under
repository/.
"""
import pathlib
import posixpath
import re

from mkdocs.structure.files import File, Files
from mkdocs.structure.nav import Link, Section

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUTSIDE = "repository"
ORDER = ["index.md", "tutorials", "howto", "reference", "explanation", "decisions", "benchmarks.md", OUTSIDE]
TITLES = {"Howto": "How-to", "Repository": "Project"}
LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#|/)([^)\s#]+)(#[^)\s]*)?(?=\))")
COMMENT = re.compile(r"<!--.*?-->\n?", re.DOTALL)


def repository_path(site_path):
    """Path in the repository of a page of the site."""
    inside = posixpath.relpath(site_path, OUTSIDE)
    return posixpath.join("docs", site_path) if inside.startswith("..") else inside


def site_path(path):
    """Path on the site of a file of the repository."""
    inside = posixpath.relpath(path, "docs")
    return posixpath.join(OUTSIDE, path) if inside.startswith("..") else inside


def target_of(page, link):
    """The file of the repository that a link of a page names; None for one that is not there."""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(page), link))
    if (ROOT / path).is_dir():
        path = posixpath.join(path, "README.md")
    return path if not path.startswith("..") and (ROOT / path).is_file() else None


def place(file):
    """Sort key of the navigation: the order of the folders, then names, each folder's index first."""
    top = file.src_path.split("/")[0]
    return (ORDER.index(top) if top in ORDER else len(ORDER), posixpath.basename(file.src_path) != "index.md", file.src_path)


def on_files(files, config):
    """Adds the files outside docs/ that pages link to, and those that these link to."""
    pages = [repository_path(file.src_path) for file in files if file.src_path.endswith(".md")]
    known = set(pages)
    while pages:
        page = pages.pop()
        for link, _ in LINK.findall((ROOT / page).read_text(encoding="utf-8")):
            target = target_of(page, link)
            if not target or target in known:
                continue
            known.add(target)
            if target.startswith("docs/"):
                continue
            file = File(target, str(ROOT), config["site_dir"], config["use_directory_urls"])
            for name in ("url", "dest_path"):
                setattr(file, name, posixpath.join(OUTSIDE, getattr(file, name)))
            file.abs_dest_path = str(pathlib.Path(config["site_dir"], file.dest_path))
            file.src_path = site_path(target)
            files.append(file)
            if target.endswith(".md"):
                pages.append(target)
    return Files(sorted(files, key=place))


def on_page_markdown(markdown, page, config, files):  # pylint: disable=unused-argument
    here = repository_path(page.file.src_path)

    def moved(match):
        target = target_of(here, match[1])
        if not target:
            return match[0]  # MkDocs says that it is dead
        return posixpath.relpath(site_path(target), posixpath.dirname(page.file.src_path)) + (match[2] or "")

    return LINK.sub(moved, COMMENT.sub("\n", markdown))


def on_nav(nav, config, files):  # pylint: disable=unused-argument
    for item in nav.items:
        if isinstance(item, Section):
            item.title = TITLES.get(item.title, item.title)
    nav.items.append(Link("C++ headers", "api/annotated.html"))  # made by Doxygen
    return nav
