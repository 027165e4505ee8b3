"""The references of the site: made from what the programs print, from the manual pages, the headers and the docstrings.

    scripts/docs/references.py NAME     prints one of them as Markdown

A page has the mark `<!-- made: NAME -->` where one belongs. Nothing of it is in git. DDPRUN and DDPRUN_REFERENCE name
the two programs that are asked (default: those in build/).
"""

import ast
import functools
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
DDPRUN = os.environ.get("DDPRUN", str(ROOT / "build/bin/ddprun"))
FLAG_REFERENCE = os.environ.get("DDPRUN_REFERENCE", str(ROOT / "build/tests/flag_reference"))


def output(*command):
    ran = subprocess.run(command, capture_output=True, text=True)
    if ran.returncode != 0:
        sys.exit(f"references.py: {' '.join(command)} ended with {ran.returncode}: {ran.stderr.strip()}")
    return ran.stdout


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


def outside_code(text, change):
    """Changed but for what is between backquotes."""
    return "".join(part if part.startswith("`") else change(part) for part in re.split(r"(`[^`]*`)", text))


def starless(text):
    """Without emphasis: a program's words with * and _ mean these."""
    return outside_code(text, lambda part: re.sub(r"[*_]", r"\\\g<0>", part))


def cell(text):
    """Words of a program in a table of Markdown."""
    return starless(outside_code(text.replace("|", "\\|"), lambda part: part.replace("<", "&lt;")))


def table(heads, rows):
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


# Commands: `ddprun help COMMAND`.

OPTION = re.compile(r"^  (-\S+(?: [^\s]+)?)(?:\s{2,}(\S.*))?$")


def options(lines):
    """[(names and form, what it does)] of the options that a help lists; None: it is in another form."""
    rows = []
    for line in lines:
        option = OPTION.match(line)
        if option:
            rows.append([option[1], option[2] or ""])
        elif rows and line.startswith(" " * 20):
            rows[-1][1] = f"{rows[-1][1]} {line.strip()}".strip()
        elif line.strip():
            return None
    return [tuple(row) for row in rows if not row[0].startswith("-h,")]


def described(text):
    """(what it does, usage, options) of a command; options None: its help is shown as it is."""
    about, usage, rest = re.fullmatch(r"(.*?)^Usage: (.*?)\n(.*)", text, re.S | re.M).groups()
    return about.strip(), usage, options(rest.replace("Options:", "", 1).splitlines())


@functools.cache
def helps():
    """{command: its help}, in the order of `ddprun help`."""
    listed = re.search(r"^Commands .*?\n\n", output(DDPRUN, "help"), re.S | re.M)[0]
    names = [name for line in re.findall(r"^  \S.*", listed, re.M) for name in re.split(r"\s{2,}", line.strip())[1:]]
    assert "status" in names and "drain" in names, names
    return {name: output(DDPRUN, "help", name).strip() for name in names if name not in ("help", "version")}


def names_of(option):
    """`-o,--output text|json` as `-o`, `--output` and what they take."""
    names, _, form = option.partition(" ")
    return " ".join([", ".join(f"`{name}`" for name in names.split(",")), f"`{form}`" if form else ""]).strip()


def table_of(rows):
    return table(["option", ""], [(names_of(name), cell(text)) for name, text in rows])


def commands():
    known = {name: described(text) for name, text in helps().items() if re.search(r"^Usage: ", text, re.M)}
    asking = [rows for _, _, rows in known.values() if rows and any(name.startswith("--endpoint") for name, _ in rows)]
    common = [row for row in asking[0] if all(row in rows for rows in asking)]
    made = ["### Options that find a run\n\nEvery command that asks a run has them.\n\n" + table_of(common)]
    for name, text in helps().items():
        about, usage, rows = known.get(name, ("", "", None))
        if rows is None:
            made.append(f"### ddprun {name}\n\n```\n{text}\n```\n")
            continue
        finds = [row for row in rows if row in common] == common
        own = [row for row in rows if not (finds and row in common)]
        made.append(f"### ddprun {name}\n\n{cell(about)}.\n\n```\n{usage}\n```\n\n"
                    + (table_of(own) if own else "")
                    + ("\nBeside these: the [options that find a run](#options-that-find-a-run).\n" if finds else ""))
    return "\n".join(made)


# Manual pages.

def plain(roff):
    """A line or two of a manual page as Markdown."""
    roff = re.sub(r"^\.BR? (.*?)(\.?)$", lambda line: f"`{line[1].replace(' ', '')}`{line[2]}", roff, flags=re.M)
    roff = re.sub(r"^\.BI (\S+) (\S+)$", r"`\1<\2>`", roff, flags=re.M)
    roff = re.sub(r"^\.I (.*)$", r"`\1`", roff, flags=re.M)
    roff = re.sub(r"\\f[BIR]", "", roff)
    return " ".join(roff.replace("\\-", "-").replace("\\e", "\\").split())


def section(page, name):
    return re.search(rf"^\.SH {name}\n(.*?)(?=^\.SH )", read(f"docs/man/{page}"), re.S | re.M)[1]


def entries(page, name):
    """[(what, text)] of a section's .TP paragraphs."""
    parts = section(page, name).partition(".PP\n")[0].partition(".TP\n")[2].split(".TP\n")
    return [tuple(map(plain, part.split("\n", 1))) for part in parts]


def environment():
    rows, trainer = entries("ddprun.1", "ENVIRONMENT"), entries("ddprun-train.1", "ENVIRONMENT")
    coded = lambda row: (row[0] if row[0].endswith(">`") else ", ".join(f"`{name}`" for name in row[0].strip("`").split(",")),
                         cell(row[1]))
    return (table(["ddprun reads", ""], map(coded, rows)) + "\n"
            + table(["ddprun-train reads", ""], map(coded, trainer)))


def files():
    rows = entries("ddprun.1", "FILES") + entries("ddprun-train.1", "FILES")
    where = cell(plain(section("ddprun.1", "FILES").partition(".TP\n")[0]))
    return f"{where}\n\n" + table(["file", ""], [(what.replace(", ", "`, `"), cell(text)) for what, text in rows])


def trainer_flags():
    made = []
    for what, text in entries("ddprun-train.1", "OPTIONS"):
        text, _, default = text.partition(" Default: ")
        names, _, form = what.rpartition(" ") if re.search(r" [A-Z]+$", what) else (what, "", "")
        coded = ", ".join(f"`{name.strip()}`" for name in names.split(","))
        made.append((f"{coded} `{form}`" if form else coded, f"`{default.rstrip('.')}`" if default else "", cell(text)))
    return table(["flag", "default", ""], made)


# Events: the kinds and their comments.

def events():
    header = read("rendezvous/messages/run_event.h")
    found = re.findall(r'((?:^// .*\n)+)inline constexpr const char\* kEvent\w+ =\s+"(\w+)";', header, re.M)
    assert len(found) == header.count("const char* kEvent"), "an event without a comment of its own"
    return table(["kind", ""], [(f"`{kind}`", " ".join(text.replace("// ", " ").split())) for text, kind in found])


# Python: signatures and docstrings of what the package exports.

def arguments_of(taken):
    """The arguments of a signature: a comma within brackets, as of Union[str, os.PathLike[str]], belongs to a type."""
    parts, depth = [""], 0
    for character in taken:
        depth += (character in "[(") - (character in "])")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def signature(node, name):
    """As it is defined; a long one has a line for each argument."""
    inits = [item for item in getattr(node, "body", []) if getattr(item, "name", "") == "__init__"]
    is_class = isinstance(node, ast.ClassDef)
    if is_class and not inits:
        return f"class {name}"
    taken = ast.unparse(inits[0].args if is_class else node.args).removeprefix("self, ")
    returned = f" -> {ast.unparse(node.returns)}" if not is_class and node.returns else ""
    line = f"{'class ' if is_class else ''}{name}({taken}){returned}"
    if len(line) <= 80:
        return line
    return f"{name}(\n" + "".join(f"    {argument},\n" for argument in arguments_of(taken)) + f"){returned}"


def prose(docstring):
    """Its lines, with what begins with >>> as blocks of Python."""
    block = re.compile(r"(?:^(?:>>>|\.\.\.) ?.*\n?)+", re.M)
    return block.sub(lambda match: "```python\n" + re.sub(r"^(?:>>>|\.\.\.) ?", "", match[0], flags=re.M).rstrip() + "\n```\n",
                     docstring)


def exported():
    """(module, name, node) of each name in `ddprun.__all__`, then of the callbacks."""
    package = ROOT / "launcher/python/ddprun"
    top = ast.parse(read("launcher/python/ddprun/__init__.py"))
    homes = {alias.name: item.module for item in top.body if isinstance(item, ast.ImportFrom) for alias in item.names}
    listed = next(ast.literal_eval(item.value) for item in top.body
                  if isinstance(item, ast.Assign) and item.targets[0].id == "__all__")
    for name in sorted(listed, key=str.lower):
        tree = ast.parse((package / (homes[name].split(".")[1] + ".py")).read_text())
        # The last one: before it stand the forms of an overloaded function.
        yield "ddprun", name, [item for item in tree.body if getattr(item, "name", None) == name][-1]
    for module in ("accelerate", "lightning", "transformers"):
        for item in ast.parse((package / f"{module}.py").read_text()).body:
            if isinstance(item, ast.ClassDef):
                yield f"ddprun.{module}", item.name, item


def python():
    made = [prose(ast.get_docstring(ast.parse(read("launcher/python/ddprun/__init__.py")))) + "\n"]
    for module, name, node in exported():
        said = ast.get_docstring(node)
        assert said, f"{module}.{name} has no docstring"
        made.append(f"## {module}.{name}\n\n```python\n{signature(node, f'{module}.{name}')}\n```\n\n{prose(said)}\n")
    return "\n".join(made)


MADE = {
    "flags": lambda: starless(output(FLAG_REFERENCE, "markdown")),
    "commands": commands,
    "metrics": lambda: output(FLAG_REFERENCE, "metrics"),
    "environment": environment,
    "files": files,
    "trainer-flags": trainer_flags,
    "events": events,
    "python": python,
}
MARK = re.compile(r"^<!-- made: ([\w-]+) -->$", re.M)


def filled(page):
    """A page with what is made in place of its marks."""
    return MARK.sub(lambda mark: MADE[mark[1]]().strip("\n") + "\n", page)


if __name__ == "__main__":
    if sys.argv[1:] and sys.argv[1] in MADE:
        print(MADE[sys.argv[1]]())
    else:
        sys.exit(f"usage: references.py {'|'.join(MADE)}")
