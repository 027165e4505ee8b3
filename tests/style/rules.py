"""The laws of the tree. Each rule takes all files and yields "path:line: what is wrong"."""

import fnmatch
import pathlib
import posixpath
import re

import source
from source import functions_of

MAX_FUNCTION_LINES = 70
MAX_PAGE_LINES = 250

# What needs a loop or a log is run time; the rest of common/ is values.
RUNTIME = {f"common/{stem}.{suffix}" for stem in ("asio_loop", "line_writer", "log", "loop", "task_queue", "wall_clock") for suffix in ("h", "cc")}

# Who may include whom: a part and the parts below it.
LAYERS = {
    "base": {"base"},
    "runtime": {"base", "runtime"},
    "proto": {"base", "proto"},
    "rendezvous/messages": {"base", "rendezvous/messages"},
    "rendezvous/core": {"base", "rendezvous/messages", "rendezvous/core"},
    "rendezvous": {"base", "runtime", "proto", "rendezvous/messages", "rendezvous/core", "rendezvous"},
    "agent/core": {"base", "proto", "rendezvous/messages", "agent/core"},
    "agent": {"base", "runtime", "proto", "rendezvous/messages", "rendezvous/core", "rendezvous",
              "agent/core", "agent"},
    "trainer/checkpoint": {"base", "proto", "trainer/checkpoint"},
    "launcher": {"base", "runtime", "proto", "rendezvous/messages", "rendezvous/core", "rendezvous", "agent/core", "agent",
                 "trainer/checkpoint", "launcher"},
    "trainer": {"base", "runtime", "proto", "trainer/checkpoint", "trainer"},
}
WIRE_FOLDERS = ("rendezvous", "rendezvous/wire", "rendezvous/listener", "rendezvous/failover")
WIRE_STEMS = ("convert", "wire", "service", "server", "client", "control_socket", "grpc_")

CORE_BANS = {
    r"\w*sleep\w*\s*\(": "sleep",
    r"\b(random_device|mt19937\w*|s?rand|drand48|getrandom|default_random_engine)\b": "randomness",
    r"\bgetenv\b": "getenv",
    r"\b(std::|boost::)?(j?thread|this_thread)\b": "thread",
    r"\b\w*mutex\b|\bcondition_variable\b|\batomic\b": "locking",
    r"\bspdlog\b|\bLog\s*\(|\bLOG\b|\bcout\b|\bcerr\b|\bf?printf\s*\(": "logging",
    r"_clock\b|\bnow\s*\(\s*\)|\btime\s*\(\s*(nullptr|NULL|0)\s*\)|\bclock_gettime\b": "clock",
}
CORE_HEADER_BANS = {"ctime", "fstream", "future", "time.h", "unistd.h"}  # What they declare has no one name.

COMPONENT_NAMES = {"worker", "workers", "agent", "rendezvous", "trainer", "store", "coordinator",
                   "launcher", "checkpoint"}

ALLOWED_HOSTS = re.compile(
    r"localhost|127\.0\.0\.1|\[::1\]|0\.0\.0\.0|example\.(com|org|net)|(www\.)?w3\.org|github\.com"
    r"|[\w.-]*\.(test|invalid|example)|[A-Za-z0-9_-]+|[^A-Za-z0-9\[].*")


def part_of(path):
    """The part of the tree a file belongs to, or None for what is free to include anything."""
    if path.startswith("common/"):
        return "runtime" if path.replace("_test", "") in RUNTIME else "base"
    for part in ("rendezvous/messages", "rendezvous/core", "agent/core", "proto", "rendezvous", "agent", "launcher",
                 "trainer/checkpoint", "trainer"):
        if path.startswith(part + "/"):
            return part
    return None


def layers(files):
    for file in files:
        part = part_of(file.path)
        if not file.is_cpp or part is None:
            continue
        for line, name, quoted in file.includes:
            target = part_of(name)
            if not quoted or name.endswith(".pb.h"):
                continue
            if file.is_test and name.startswith("tests/support/"):
                continue
            if part == "trainer" and file.folder.endswith("gloo"):
                continue
            if target is None:
                yield f"{file.path}:{line}: includes {name}: name it from the root of the tree"
            elif target not in LAYERS[part]:
                yield f"{file.path}:{line}: {part} may not include {name} ({target})"


def foreign_headers(files):
    for file in files:
        if not file.is_cpp or file.path.startswith("tests/"):
            continue
        at_wire = file.folder in WIRE_FOLDERS and file.stem.startswith(WIRE_STEMS)
        for line, name, _ in file.includes:
            is_wire = name.endswith(".pb.h") or re.match(r"(grpc|grpcpp|google/protobuf)/", name)
            is_torch = re.match(r"(torch|ATen|c10|gloo)/", name)
            if is_wire and not at_wire:
                yield (f"{file.path}:{line}: {name} only in rendezvous's "
                       f"{{{','.join(WIRE_STEMS)}}}*: Protobuf's types stop at the border")
            if is_torch and not file.path.startswith("trainer/"):
                yield f"{file.path}:{line}: {name} only in trainer/"


def pure_cores(files):
    for file in files:
        if not re.match(r"(rendezvous|agent)/core/|rendezvous/messages/", file.path):
            continue
        if not file.is_cpp:
            continue
        for line, name, _ in file.includes:
            if name in CORE_HEADER_BANS:
                yield f"{file.path}:{line}: <{name}> in a core"
        for number, code in enumerate(file.cpp_code.splitlines(), 1):
            for pattern, what in CORE_BANS.items():
                if not code.lstrip().startswith("#") and re.search(pattern, code):
                    yield f"{file.path}:{number}: {what} in a core: {code.strip()}"


def json_is_parsed_in_one_place(files):
    """Who parses JSON bounds its depth: common/json.h does."""
    for file in files:
        if not file.is_cpp or file.is_test or file.path == "common/json.h":
            continue
        for number, code in enumerate(file.cpp_code.splitlines(), 1):
            if re.search(r"\bjson::(parse|sax_parse)\s*\(", code):
                yield f"{file.path}:{number}: parses JSON of any depth: ParseJson (common/json.h)"


def no_sleep_in_tests(files):
    in_code = re.compile(r"\b(sleep_for|sleep_until|u?sleep|nanosleep)\s*\(|\b(time|asyncio)\.sleep\b")
    in_shell = re.compile(r"(^|[;&|(]|\bdo|\bthen)\s*sleep\s+[\d.$]")
    # tests/support/ has the one bounded wait that all tests share, and the worker that hangs on order.
    excepted = ("tests/style/", "tests/support/")
    for file in files:
        if not file.is_test or not file.is_code or file.path.startswith(excepted):
            continue
        pattern = in_shell if file.is_script else in_code
        lines = file.cpp_code.splitlines() if file.is_cpp else file.lines
        for number, line in enumerate(lines, 1):
            if pattern.search(line):
                yield f"{file.path}:{number}: sleeps; wait for a condition, bounded"


def sizes(files):
    for file in files:
        if file.folder == "docs" and file.suffix == ".md" and len(file.lines) > MAX_PAGE_LINES:
            yield f"{file.path}: has {len(file.lines)} lines, {MAX_PAGE_LINES} are allowed"
        if not file.is_code:
            continue
        if file.is_cpp or file.suffix == ".py":
            for name, line, length in functions_of(file):
                if length > MAX_FUNCTION_LINES:
                    yield (f"{file.path}:{line}: {name} has {length} lines, "
                           f"{MAX_FUNCTION_LINES} are allowed")


def common_stays_common(files):
    for file in files:
        if not file.path.startswith("common/") or not file.is_cpp or file.is_test:
            continue
        for number, code in enumerate(file.cpp_code.splitlines(), 1):
            code = re.sub(r"(\.|->)store\(", "", code)  # std::atomic's.
            for identifier in re.findall(r"[A-Za-z_]\w*", code):
                words = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", identifier)
                named = COMPONENT_NAMES & {word.lower() for word in words}
                if named:
                    yield f"{file.path}:{number}: {identifier} names a component in common/"


def headers_open_well(files):
    for file in files:
        if file.name == "README.md" and not file.text.startswith("# "):
            yield f"{file.path}:1: a README opens with a heading"
        if file.suffix != ".h":
            continue
        if not file.text.startswith("// "):
            yield f"{file.path}:1: a header opens with what it decides and what it never does"
        if not re.search(r"^#pragma once$", file.text, re.MULTILINE):
            yield f"{file.path}: no #pragma once"


def tests_are_registered(files):
    lists = {file.folder: file.text for file in files if file.name == "CMakeLists.txt"}
    for file in files:
        if not re.search(r"_test\.(cc|py|sh)$", file.name):
            continue
        parts = file.path.split("/")
        registered = any(
            # The stem is enough: lists often add the suffix themselves.
            re.search(rf"(?<![\w/]){re.escape('/'.join(parts[depth:]).rsplit('.', 1)[0])}\b",
                      lists.get("/".join(parts[:depth]), "").replace("${CMAKE_CURRENT_SOURCE_DIR}/", ""))
            for depth in range(len(parts)))
        # Beside its program's list instead of its own folder's.
        registered = registered or any("/" + file.name in text for text in lists.values())
        if not registered:
            yield f"{file.path}: in no CMakeLists.txt, so it never runs"


def no_bare_todo(files):
    pattern = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b(?!\([^)]+\): \S)")
    for file in files:
        if not file.is_code or file.path.startswith("tests/style/"):
            continue
        for number, line in enumerate(file.lines, 1):
            if pattern.search(line):
                yield f"{file.path}:{number}: needs a reason: TODO(why it waits): what"


def no_place_but_this(files):
    """Nothing in the tree knows the machine it was written on, or a package host."""
    place = re.compile(r"(?<![\w.~}-])/(work|root|home)/\w|\.\./shared\b")
    for file in files:
        if file.path.startswith("tests/style/") or file.path == "LICENSE":
            continue
        for number, line in enumerate(file.lines, 1):
            if place.search(line):
                yield f"{file.path}:{number}: names a folder of one machine: {line.strip()[:80]}"
            for host in re.findall(r"https?://([^\s/\"'`)>,]+)", line):
                if not ALLOWED_HOSTS.fullmatch(re.sub(r":\d+$", "", host)):
                    yield f"{file.path}:{number}: names the host {host}"
            if re.search(r"--(extra-)?index-url|\bPIP_INDEX_URL\b", line):
                yield f"{file.path}:{number}: chooses a package index; that is the machine's affair"


def folder_table(files):
    """The table of folders in CONTRIBUTING.md is the tree's."""
    page = next((file for file in files if file.path == "CONTRIBUTING.md"), None)
    rows = re.findall(r"^\| `([\w./-]+)/` ", page.text, re.MULTILINE) if page else []
    if not rows:
        return
    folders = {"/".join(file.path.split("/")[:depth]) for file in files
               for depth in range(1, file.path.count("/") + 1)}
    top = {folder for folder in folders if "/" not in folder and not folder.startswith(".")}
    for row in rows:
        if row not in folders:
            yield f"CONTRIBUTING.md: the table names {row}/, which is not there"
    for folder in sorted(top - {row.split("/")[0] for row in rows}):
        yield f"CONTRIBUTING.md: the table does not name {folder}/"


def _reading_list(text):
    """Name -> its place in the numbered list; several names in one item are one module in several files."""
    items = re.findall(r"^\d+\. ((?:`[\w./]+`(?:, )?)+)", text, re.MULTILINE)
    return {name.rstrip("/"): number for number, item in enumerate(items)
            for name in re.findall(r"`([\w./]+)`", item)}


def reading_order(files):
    """A folder's README lists its files from the ground up, and includes point up that list alone."""
    for readme in files:
        place = _reading_list(readme.text) if readme.name == "README.md" and readme.folder else {}
        if not place:
            continue
        of = lambda path: path[len(readme.folder) + 1:].split("/", 1)[0].split(".", 1)[0]
        product = [file for file in files if file.is_cpp and not file.is_test
                   and file.path.startswith(readme.folder + "/")]
        entries = {of(file.path) for file in product}
        for name in sorted(entries - place.keys()):
            yield f"{readme.path}: does not list {name}"
        for name in sorted(place.keys() - entries):
            yield f"{readme.path}: lists {name}, which is not there"
        for file in product:
            for line, name, quoted in file.includes:
                if not quoted or not name.startswith(readme.folder + "/"):
                    continue
                if place.get(of(name), -1) > place.get(of(file.path), len(place)):
                    yield f"{file.path}:{line}: includes {name}, which comes later in {readme.path}"


def _pages(files):
    """Those that people read, with blocks of commands and output blanked; line numbers stay."""
    for page in files:
        if page.name == "README.md" or re.fullmatch(r"(docs/)?(?!CHANGELOG)[^/]+\.md", page.path):
            yield page, re.sub(r"^```.*?^```", lambda block: "\n" * block.group().count("\n"), page.text,
                               flags=re.S | re.M)


# A file's name without its folder. Before it stands nothing that makes it a part of something else.
_FILE_NAME = re.compile(r"(?<![\w./~$}*>=-])[\w.-]*\w\.(?:jsonl?|txt|log|html|toml|ya?ml|sh|py|cc|h|md|svg|gz|sbatch)\b(?![/.(=])")


def files_are_written(files):
    """A file that a page names in backticks, without a folder, is in the tree, or in what the product writes."""
    names = {file.name for file in files}
    written = "\0".join(file.said if file.is_cpp else file.text
                        for file in files if file.is_code and not file.is_test)
    for page, text in _pages(files):
        for span in re.finditer(r"`([^`\n]+)`", text):
            for name in _FILE_NAME.findall(span.group(1)):
                parts = [part for part in re.split(r"[A-Z]+(?![a-z])", name) if part]  # NODE and the like vary.
                if name not in names and not all(part in written for part in parts):
                    number = text.count("\n", 0, span.start()) + 1
                    yield f"{page.path}:{number}: names {name}, which is neither here nor written by anything"


def _anchors(text):
    """Of a page's headings, as a code host makes them."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.S | re.M)
    for heading in re.findall(r"^#+ (.*)$", text, re.M):
        heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        yield re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def links_lead_somewhere(files):
    """A link of a page leads to a file of the tree, and to a heading in it."""
    there = {file.path: file for file in files}
    folders = {path.rsplit("/", 1)[0] for path in there if "/" in path}
    for page in files:
        if page.suffix != ".md":
            continue
        text = re.sub(r"^```.*?^```|`[^`\n]*`", lambda code: "\n" * code.group().count("\n"), page.text, flags=re.S | re.M)
        for link in re.finditer(r"\]\(([^)\s]+)\)", text):
            target, _, anchor = link.group(1).partition("#")
            path = posixpath.normpath(posixpath.join(page.folder, target)) if target else page.path
            number = text.count("\n", 0, link.start()) + 1
            if "://" in target or pathlib.PurePosixPath(path).suffix in source.DATA_SUFFIXES:
                continue
            if path not in there and path not in folders:
                yield f"{page.path}:{number}: leads to {path}, which is not there"
            elif anchor and anchor not in _anchors(there[path].text):
                yield f"{page.path}:{number}: leads to #{anchor}, which {path} has not"


def docs_name_what_is_there(files):
    """A path of the tree that a page names in backticks is there: a file, a folder, or a module without its ending."""
    there = {file.path for file in files}
    folders = {"/".join(path.split("/")[:depth]) for path in there for depth in range(1, path.count("/") + 1)}
    modules = {path.rsplit(".", 1)[0] for path in there}
    top = {folder for folder in folders if "/" not in folder and not folder.startswith(".")}
    placeholder = r"[<>{}]|(?<![A-Za-z])(?!README)[A-Z]+(?![A-Za-z])"
    for page, text in _pages(files):
        for span in re.finditer(r"`([^`\n]+(?:\n[^`\n]+)*)`", text):
            for name in re.findall(r"(?<![\w./~$}-])[\w-]+/[\w./*<>{}-]*", span.group(1)):
                path = name.rstrip("/.")
                if path.split("/")[0] not in top or re.search(placeholder, path):
                    continue
                if not fnmatch.filter(there | folders | modules, path):
                    number = text.count("\n", 0, span.start()) + 1
                    yield f"{page.path}:{number}: names {name}, which is not there"


# Pages that explain messages. Each entry has a slug as its heading and quotes messages below it. Those before the first
# comma end in the slug where they are printed; those after it are parts of them.
MESSAGES = re.compile(r"docs/(troubleshooting|messages-[\w-]+)\.md")
VARIES = re.compile(r"\b(?:HOST:PORT|HOST|PORT|N|TIME|NODE|NAME|DIR|WHO|WHY|WHAT)\b")
LEAST_OF_A_KEY = 12  # Characters that do not vary.


SLUG = re.compile(r" \[([a-z0-9]+(?:-[a-z0-9]+)+)\](?=:?\s*(?:\0|\Z))")  # With a hyphen: "[options]" is help's.
SLUGS_OF_CHOICES = 2  # Of a message that has one of several endings.
WAITS = "rendezvous/messages/describe.cc"  # What is waited for is no error, and changes: it has no slug.


def _entries(page):
    """(line, slug, messages, parts, text) of each "### slug", the quoted line below it, and what follows."""
    for match in re.finditer(r"^### (.*)\n(`[^`]+`(?: `[^`]+`)*)?(.*)\n((?:(?!#).*\n)*)", page.text, re.M):
        slug, messages, parts, text = match.groups()
        quoted = [re.findall(r"`([^`]+)`", some or "") for some in (messages, parts)]
        yield page.text.count("\n", 0, match.start()) + 1, slug, *quoted, text


def _where_said(key, product):
    """(file, where it ends) of each literal that says the message."""
    pattern = re.compile(r".{0,160}?\0.{0,160}?".join(re.escape(part) for part in VARIES.split(key) if part.strip()), re.S)
    return [(file, match.end()) for file in product for match in pattern.finditer(file.said)]


def messages_are_said(files):
    """Each message that a page explains is one that the product can print, and ends in the slug that is the heading."""
    pages = [file for file in files if MESSAGES.fullmatch(file.path)]
    if not pages:
        return
    product = [file for file in files if file.is_cpp and not file.is_test
               and file.path.startswith(("launcher/", "agent/", "rendezvous/", "trainer/", "common/", "proto/"))]
    explained = set()
    for page, (line, slug, messages, parts, text) in ((page, entry) for page in pages for entry in _entries(page)):
        if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", slug) or slug in explained or not messages:
            yield f"{page.path}:{line}: an entry has a slug of its own and quotes a message below it"
        explained.add(slug)
        for key in [*messages, *parts]:
            said = _where_said(key, product)
            ends = [SLUG.findall(file.said, end)[:SLUGS_OF_CHOICES] for file, end in said if file.path != WAITS]
            if len(VARIES.sub("", key)) < LEAST_OF_A_KEY:
                yield f"{page.path}:{line}: '{key}' could be anything"
            elif not said:
                yield f"{page.path}:{line}: no literal of the product has the parts of '{key}' in this order ({VARIES.pattern} vary)"
            elif key in messages and ends and not any(slug in end for end in ends):
                yield f"{page.path}:{line}: '{key}' does not end in [{slug}]"
        if re.findall(r"^\*\*(\w+):\*\*", text, re.M) != ["Cause", "Confirm", "Do"]:
            yield f"{page.path}:{line}: an entry has Cause, Confirm and Do"
    for file in product:
        for slug in SLUG.findall(file.said):
            if slug not in explained:
                yield f"{file.path}: no page explains [{slug}]"


# Plain English: a subject is a thing with a name. So many places may have each of these, since a rule that allowed none
# would forbid the sentence that needs one.
MOST_DIALECT = 20
SENTENCE = r"(?:^|[\0.;!] ?)"
DIALECT = {
    "nobody": r"(?i)\bnobody\b",
    "somebody, anybody, everybody": r"(?i)\b(?:some|any|every)body\b",
    "told": r"(?i)\btold\b",
    "does not count": r"(?i)\b(?:does|do) not count\b",
    "say --flag": r"\bsay `?--",
    "a sentence that begins with Who": SENTENCE + r"(?:Who|Whoever|Whose)\b(?![^.\0]*\?)",
    "a sentence that begins with What": SENTENCE + r"(?:What|Whatever)\b(?![^.\0]*\?)",
    "who is": r"\bwho is\b",
    "that which": r"\bthat which\b",
    "a clause that begins with what, whoever": r"; (?:what|who|whatever|whoever)\b|: (?:who|what)ever\b",
    "go on": r"\b(?:go|goes|going|went) on\b",
    "carries the server": r"\bcarr(?:y|ies|ied|ying) (?:the|a|one) (?:server|rendezvous)\b",
    "charged": r"\bcharged\b",
}
# Words that were replaced by standard terms (docs/concepts.md has the terms).
REPLACED = re.compile(
    r"\b(?:Errand\w*|errands?|[sS]uccession\w*|reigns?|\w*[cC]loseups?|doors?"
    # A preload process; "template" remains C++'s, Python's, and a prefix's of lines.
    r"|\w*Template(?:Note|Output|Process|Reply|Request|State|Word)\w*|(?:Worker|Kept|Plan)Template|(?:worker|kept)_template"
    r"|template_(?:hook|note|output|process)|(?:[Aa]|[Tt]he) template"
    r"|\w*[wW]ish(?:es|ed)?_?|\w*Stor(?:y|ies)\w*|(?:\w+_)?stor(?:y|ies)_?|\w*[sS]trangers?\w*"
    r"|c[oa]mes? along"
    # Iterations of a loop, rounds of ranks; something may "turn out" to be so, and "each in turn" stays.
    r"|(?:\w*[a-z])?Turn|(?:\w+_)?turns?_|\w+(?<!_in)_turns?|loop turns?|turns? of the loop)\b")
REPLACED_IN = (".proto", ".py", ".sh", ".md", ".html", ".js", ".txt")  # Beside C++.


def plain_words(files):
    """Comments and messages are written in plain English, and code has the standard terms."""
    product = [file for file in files if not file.is_test
               and file.path.startswith(("launcher/", "agent/", "rendezvous/", "trainer/", "common/", "proto/", "scripts/"))]
    tests = [file for file in files if file.is_test and not file.path.startswith("tests/style/")]
    for whose, ours in (("the product", product), ("tests", tests)):
        cpp = [file for file in ours if file.is_cpp]
        scripts = [file for file in ours if file.suffix in (".py", ".html") or file.is_script]
        for kind, those, said in (("comments", cpp, lambda file: file.comments), ("literals", cpp, lambda file: file.said),
                                  ("comments of scripts, and pages,", scripts, lambda file: file.remarks)):
            for name, pattern in DIALECT.items():
                found = [file.path for file in those for _ in re.finditer(pattern, said(file))]
                if len(found) > MOST_DIALECT:
                    yield (f"{kind} of {whose} have {len(found)} times: {name} ({MOST_DIALECT} are allowed): "
                           f"{', '.join(sorted(set(found)))}")
    for file in files:
        checked = file.is_cpp or file.suffix in REPLACED_IN or file.is_script
        if file.path.startswith("tests/style/"):  # The list itself, and its samples.
            continue
        for number, line in enumerate(file.lines if checked else [], 1):
            if replaced := REPLACED.search(line):
                yield f"{file.path}:{number}: '{replaced.group()}' has a standard term (docs/concepts.md)"


RULES = [reading_order, layers, foreign_headers, pure_cores, json_is_parsed_in_one_place, no_sleep_in_tests, sizes,
         common_stays_common, headers_open_well, tests_are_registered, no_bare_todo, no_place_but_this, folder_table,
         docs_name_what_is_there, files_are_written, links_lead_somewhere, messages_are_said, plain_words]
