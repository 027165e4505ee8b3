# Loads what --preload asks for: named modules, or the imports that a script begins with.


def _imports_in(node):
    """The absolute imports of one statement: (module, names taken from it)."""
    import ast
    if isinstance(node, ast.Import):
        return [(alias.name, ()) for alias in node.names]
    if isinstance(node, ast.ImportFrom) and not node.level and node.module != "__future__":
        return [(node.module, tuple(alias.name for alias in node.names))]
    return []


def _imports_of(source, name):
    """The absolute imports that a script begins with, in order, and the statements beyond, which
    imports may depend on."""
    import ast
    body = ast.parse(source, name).body
    if body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
        body = body[1:]
    end = 0
    while end < len(body) and isinstance(body[end], (ast.Import, ast.ImportFrom)):
        end += 1
    return [found for node in body[:end] for found in _imports_in(node)], body[end:]


def _missed(rest, left_out):
    """Modules that later statements import and that are not loaded: module -> line. In functions
    only torch is looked for: other modules there are rarely needed at each start."""
    import ast
    import importlib.util
    import sys
    found = {}
    standard = getattr(sys, "stdlib_module_names", None)  # None: before 3.10, where torch alone counts.
    for statement in rest:
        if isinstance(statement, ast.If) and "TYPE_CHECKING" in ast.dump(statement.test):
            continue
        inside = isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        for node in ast.walk(statement):
            for module, _ in _imports_in(node):
                top = module.partition(".")[0]
                known = top in sys.modules or top in left_out or top in (standard or ())
                counts = top == "torch" or (standard is not None and not inside)
                if counts and not known and importlib.util.find_spec(top) is not None:
                    found.setdefault(top, node.lineno)
    return found


def _remark(rest, left_out, name):
    """For people: where the imports of a script end too soon; "" where nothing is missed."""
    import os
    missed = _missed(rest, left_out)
    if not missed:
        return ""
    first = "torch" if "torch" in missed else min(missed, key=missed.get)
    instead = "torch,torch._dynamo" if first == "torch" else "imports," + first
    near = os.path.relpath(name) if os.path.isabs(name) else name
    return "it ends at %s:%d, a statement before `import %s` (line %d). Set --preload=%s" % (
        min(near, name, key=len)[-100:], rest[0].lineno, first, missed[first], instead)


# What a library loads only once it is used, found by comparing sys.modules before and after a step
# of DistributedDataParallel.
_LATE = {"torch": ("torch._dynamo",)}


def _source(program):
    """The program's text, and its name for people."""
    import importlib.util
    kind, text = program
    if kind == "text":
        return text, "<string>"
    if kind == "module":
        spec = importlib.util.find_spec(text)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(text + ".__main__")
        if spec is None or spec.origin is None:
            raise ImportError("no module '%s' to take imports from" % text)
        text = spec.origin
    import tokenize
    with tokenize.open(text) as script:
        return script.read(), text


def preload(wanted, program, trees):
    """Loads it; returns a remark for people, or ""."""
    import importlib
    import sys
    names = wanted.split(",")
    left_out = tuple(name[1:] for name in names if name.startswith("-"))

    def load(module):
        if (module + ".").startswith(tuple(name + "." for name in left_out)):
            return None
        trees.watch.look(module)
        return trees.load(module, importlib.import_module)

    remark = ""
    for name in names:
        if name.startswith("-"):
            continue
        if name != "imports":
            load(name)
            continue
        source, where = _source(program)
        imports, rest = _imports_of(source, where)
        for module, parts in imports:
            loaded = load(module)
            for part in parts:
                if loaded is not None and part != "*" and not hasattr(loaded, part):
                    load(module + "." + part)
        for library, late in _LATE.items():
            if library in sys.modules:
                for module in late:
                    load(module)
        remark = _remark(rest, left_out, where)
    return remark
