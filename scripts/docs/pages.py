"""Hooks of mkdocs: the site has the repository's other pages and files too, and reads Markdown as a code host does.

A link that leaves docs/ leads to a page of the site: README.md and the like are pages, a source file is shown as one.
References are made in place of their marks (references.py).
"""

import html
import pathlib
import posixpath
import re

import references
from mkdocs.structure.files import File

ROOT = pathlib.Path(__file__).resolve().parents[2]
OTHER_PAGES = {"README.md": "index.md", "CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md",
               "SECURITY.md": "vulnerabilities.md"}
SEARCH = "search_when_used.js"
LANGUAGES = {".cc": "cpp", ".h": "cpp", ".py": "python", ".sh": "bash"}
LINK = re.compile(r"(\]\()([^)\s#]+)((?:#[^)\s]*)?\))")
PHOTO = re.compile(r"!\[([^\]]+)\]\((pictures/[\w-]+)\.png\)")
NAMED_BY_FILE = re.compile(r"\[((?:docs/)?[a-z-]+\.md)\]\(([^)\s#]+)")
CODE = re.compile(r"(^```.*?^```)", re.S | re.M)


def path_of(uri):
    """Where a page of the site is in the repository."""
    return next((path for path, page in OTHER_PAGES.items() if page == uri), f"docs/{uri}")


def page_of(path):
    """Where a file of the repository is in the site; a source file has a page that shows it."""
    if path in OTHER_PAGES:
        return OTHER_PAGES[path]
    return path[len("docs/"):] if path.startswith("docs/") else f"source/{path}.md"


def outside_of_code(change, text):
    parts = CODE.split(text)
    return "".join(part if part.startswith("```") else change(part) for part in parts)


def linked(path, target):
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), target))


def linked_files(path, text):
    """The files without a page of their own that a page links to."""
    for _, target, _ in LINK.findall(CODE.sub("", text)):
        if "://" not in target and page_of(linked(path, target)).startswith("source/"):
            yield linked(path, target)


def shown(path):
    name = pathlib.PurePosixPath(path)
    text = (ROOT / path).read_text(encoding="utf-8").rstrip("\n")
    return f"---\nsearch: {{exclude: true}}\n---\n# {name.name}\n\n`{path}`\n\n````{LANGUAGES.get(name.suffix, 'text')}\n{text}\n````\n"


def on_files(files, config):
    for name in ("site.css", SEARCH):
        files.append(File.generated(config, name, content=(ROOT / "scripts/docs" / name).read_text()))
    texts = {path: (ROOT / path).read_text(encoding="utf-8") for path in OTHER_PAGES}
    for path, text in texts.items():
        files.append(File.generated(config, page_of(path), content=text))
    for file in list(files.documentation_pages()):
        if file.src_uri not in OTHER_PAGES.values():
            texts[path_of(file.src_uri)] = file.content_string
    for path in sorted({target for page, text in texts.items() for target in linked_files(page, text)}):
        if (ROOT / path).is_file():  # Else the link is reported.
            files.append(File.generated(config, page_of(path), content=shown(path)))
    return files


def as_it_is_meant(text):
    """As on a code host a list needs no blank line before it, and a list in a list two or three spaces, and a bar in
    the code of a table stands behind a backslash. What is to be confirmed and done about a message begins on a line of its
    own."""
    text = re.sub(r"`[^`\n]*`", lambda code: code[0].replace("\\|", "|"), text)
    text = re.sub(r"\n(?=\*\*(?:Cause|Confirm|Do):\*\*)", "  \n", text)
    text = re.sub(r"^ {2,3}(?=- )", "    ", text, flags=re.M)
    item = r"(?:[-*]|\d+\.) "
    return re.sub(rf"^((?! *{item})(?![|#\s]).+\n)(?={item})", r"\1\n", text, flags=re.M)


def in_both_schemes(picture):
    """The theme hides the one of the other scheme, which lazy loading leaves out; an SVG follows the scheme by itself."""
    alt, name = picture.groups()
    if not (ROOT / f"docs/{name}-dark.png").is_file():
        return picture[0]
    return "".join(f'<img alt="{html.escape(alt)}" loading="lazy" src="{name}{kind}.png#only-{scheme}">'
                   for kind, scheme in (("", "light"), ("-dark", "dark")))


def titles(nav):
    """{page: its title in the navigation}"""
    pairs = [pair for tab in nav for pages in tab.values() for page in pages for pair in page.items()]
    return {page: title for title, page in pairs}


def on_page_markdown(markdown, page, config, **_):
    uri = page.file.src_uri
    if uri.startswith("source/"):
        return markdown
    titled = titles(config.nav)

    def by_title(match):
        """A link that a code host shows as the name of a file."""
        name, target = match.groups()
        return f"[{titled.get(page_of(linked(path_of(uri), target)), name)}]({target}"

    def to_the_page(match):
        before, target, after = match.groups()
        if "://" in target:
            return match.group()
        there = page_of(linked(path_of(uri), target))
        return before + posixpath.relpath(there, posixpath.dirname(uri) or ".") + after

    def changed(text):
        return as_it_is_meant(LINK.sub(to_the_page, NAMED_BY_FILE.sub(by_title, PHOTO.sub(in_both_schemes, text))))

    return outside_of_code(changed, references.filled(markdown))


def on_page_content(content, **_):
    """A flag or a file's name is not broken at its hyphens."""
    return re.sub(r"<code>(?=[^<\s]{1,40}</code>)", '<code class="whole">', content)


def on_post_page(output, page, **_):
    """In the head, because it must be there before the theme's own script. What `extra_javascript` names comes after that."""
    script = posixpath.relpath(SEARCH, posixpath.dirname(page.file.dest_uri) or ".")
    return output.replace("</head>", f'<script src="{script}"></script></head>', 1)
