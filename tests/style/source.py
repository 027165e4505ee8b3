"""Source files as the rules see them: their text, without comments and literals, their functions."""

import ast
import dataclasses
import functools
import io
import pathlib
import re
import subprocess
import tokenize

CODE_SUFFIXES = {".cc", ".h", ".py", ".sh", ".cmake", ".proto"}
DATA_SUFFIXES = {".gz", ".png", ".bin"}

_COMMENT_OR_LITERAL = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<tag>\w*)\(.*?\)(?P=tag)"'
    r'|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])+\'',
    re.DOTALL,
)


@dataclasses.dataclass(frozen=True)
class File:
    """A file of the tree (or a sample): path relative to the root, with '/'."""

    path: str
    text: str

    @property
    def name(self):
        return self.path.rsplit("/", 1)[-1]

    @property
    def stem(self):
        return self.name.split(".", 1)[0]

    @property
    def folder(self):
        return self.path.rsplit("/", 1)[0] if "/" in self.path else ""

    @property
    def suffix(self):
        return pathlib.PurePosixPath(self.path).suffix

    @property
    def is_cpp(self):
        return self.suffix in (".cc", ".h")

    @property
    def is_script(self):
        return self.suffix == ".sh" or self.text.startswith(("#!/bin/", "#!/usr/bin/env bash"))

    @property
    def is_code(self):
        return self.suffix in CODE_SUFFIXES or self.name == "CMakeLists.txt" or self.is_script

    @property
    def is_test(self):
        return self.path.startswith("tests/") or self.stem.endswith("_test")

    @property
    def lines(self):
        return self.text.splitlines()

    @functools.cached_property
    def cpp_code(self):
        """C++ with comments and literals blanked; line numbers stay."""
        blank = lambda match: '""' + "\n" * match.group().count("\n")
        return _COMMENT_OR_LITERAL.sub(blank, self.text)

    @functools.cached_property
    def said(self):
        """What C++ literals say, in their order: neighbours joined, \0 where other code is between two."""
        text, end = "", 0
        for match in _COMMENT_OR_LITERAL.finditer(self.text):
            if match.group().startswith('"'):
                between = re.sub(r"//[^\n]*", "", self.text[end:match.start()])
                text += "\0" * bool(between.strip()) + match.group()[1:-1].replace('\\"', '"').replace("\\n", "\n")
                end = match.end()
        return text

    @functools.cached_property
    def comments(self):
        """What C++ comments say, in their order: lines that follow each other joined, \0 between paragraphs."""
        text, end = "", 0
        for match in _COMMENT_OR_LITERAL.finditer(self.text):
            if match.group().startswith("/"):
                words = match.group().strip("/* \n")
                follows = words and not self.text[end:match.start()].strip()
                text += (" " if follows else "\0") + words
                end = match.end()
        return text

    @functools.cached_property
    def remarks(self):
        """What a script says to its readers, and a page of HTML to its users: \0 between paragraphs."""
        if self.suffix == ".html":
            return re.sub(r"<(script|style)\b.*?</\1>|<[^>]*>", "\0", self.text, flags=re.DOTALL)
        if self.suffix != ".py":
            found = [(number, line.split("# ", 1)[1]) for number, line in enumerate(self.lines) if re.search(r"(^|\s)# ", line)]
            return _paragraphs((number, number, words) for number, words in found)
        tokens = tokenize.generate_tokens(io.StringIO(self.text).readline)
        return _paragraphs((token.start[0], token.end[0], token.string.strip("#\" \n")) for token in tokens
                           if token.type == tokenize.COMMENT or token.string.startswith('"""'))

    @functools.cached_property
    def includes(self):
        """(line, name, quoted?) of every #include."""
        found = []
        for number, line in enumerate(self.lines, 1):
            match = re.match(r'\s*#\s*include\s*(["<])([^">]+)[">]', line)
            if match:
                found.append((number, match.group(2), match.group(1) == '"'))
        return found


def _paragraphs(pieces):
    """Pieces of (first line, last line, words): those on lines that follow each other joined, else \0 between them."""
    text, last = "", -1
    for begin, end, words in pieces:
        text += (" " if begin == last + 1 else "\0") + words
        last = end
    return text


def functions_of(file):
    """(name, first line, number of lines) of the functions of a C++ or Python file."""
    return _python_functions(file) if file.suffix == ".py" else _cpp_functions(file)


def _python_functions(file):
    for node in ast.walk(ast.parse(file.text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name, node.lineno, node.end_lineno - node.lineno + 1


def _cpp_functions(file):
    """A brace counter, good enough for formatted code: what opens outside of any function and has
    parentheses before its brace is a function."""
    code = re.sub(r"^\s*#(?:[^\n]*\\\n)*[^\n]*", lambda m: "\n" * m.group().count("\n"),
                  file.cpp_code, flags=re.MULTILINE)
    open_blocks = []  # (is a function, name, first line)
    header = ""
    line = 1
    for character in code:
        if character == "\n":
            line += 1
        if character == "{":
            inside = any(block[0] for block in open_blocks)
            scope = re.search(r"\b(namespace|class|struct|union|enum|extern|concept)\b[^()]*$", header)
            is_function = not inside and "(" in header and not scope
            first = line - header.strip().count("\n")
            name = re.search(r"([\w~:]+)\s*\(", header)
            open_blocks.append((is_function, name.group(1) if name else "", first))
            header = ""
        elif character == "}":
            if open_blocks:
                is_function, name, first = open_blocks.pop()
                if is_function:
                    yield name, first, line - first + 1
            header = ""
        elif character == ";" and header.count("(") <= header.count(")"):
            header = ""
        else:
            header = (header + character).lstrip()


def tree(root):
    """All files of the working tree that git knows or would take; without git, all but builds."""
    listed = subprocess.run(
        ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True, check=False)
    if listed.returncode == 0:
        paths = [name for name in listed.stdout.decode().split("\0") if name]
    else:
        paths = [path.relative_to(root).as_posix() for path in root.rglob("*")]
        paths = [path for path in paths if not re.match(r"(build[^/]*|\.git|\.cache)/", path)]
    files = []
    for path in sorted(set(paths)):
        full = root / path
        if full.is_file() and not full.is_symlink() and full.suffix not in DATA_SUFFIXES:
            files.append(File(path, full.read_bytes().decode("utf-8", "replace")))
    return files
