# Loads what --preload asks for: named modules, or what a script imports at its module level.


def installed():
    """Folders of the interpreter and of installed packages."""
    import os
    import sysconfig
    return tuple({os.path.join(sysconfig.get_path(name), "") for name in ("stdlib", "platstdlib", "purelib", "platlib")})


def _statements(body):
    """Those that are executed when the module is: in conditions and the like too, in functions not."""
    import ast
    for node in body:
        yield node
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        typing = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for part in ("orelse",) if typing else ("body", "handlers", "orelse", "finalbody"):
            yield from _statements(getattr(node, part, ()))


def _imports_in(node, package):
    """One statement's: (module, names taken from it)."""
    import ast
    if isinstance(node, ast.Import):
        return [(alias.name, ()) for alias in node.names]
    if not isinstance(node, ast.ImportFrom) or node.module == "__future__":
        return []
    name = node.module or ""
    if node.level:
        above = package.split(".")[:len(package.split(".")) - node.level + 1]
        name = ".".join(above + [name] * bool(name))
    return [(name, tuple(alias.name for alias in node.names))] if name else []


class _Script:
    """A program's imports of modules that are not its own. Its own are read, not executed: what they import counts too."""

    def __init__(self, where, path, named):
        import os
        self.named = {name.partition(".")[0] for name in named}  # Of the program's own these may be executed.
        places = {os.path.realpath(place) for place in (path or ".", os.getcwd(), os.path.dirname(where))} - {"/"}
        self.places = tuple(os.path.join(place, "") for place in places)
        self.installed, self.seen = installed(), set()
        self.mentions_torch = False

    def own_files(self, module, parts):
        """The source files of a module of the program's own that an import executes; None: it is another's."""
        import importlib.util
        import os
        top, *below = module.split(".")
        if top in self.named:
            return None
        try:
            spec = importlib.util.find_spec(top)
        except ValueError:  # A module that has none, such as __main__.
            return None
        if spec is None:
            return []
        folders = list(spec.submodule_search_locations or ())
        where = os.path.realpath(folders[0] if folders else spec.origin or "")
        if not where.startswith(self.places) or where.startswith(self.installed) or "-packages/" in where:
            return None
        if not folders:
            return [(spec.origin, "")]
        found, folder, package = [(os.path.join(folders[0], "__init__.py"), top)], folders[0], top
        for step in below + [None]:
            for name in [step] if step else parts:
                found.append((os.path.join(folder, name + ".py"), package))
                found.append((os.path.join(folder, name, "__init__.py"), package + "." + name))
            if step:
                folder, package = os.path.join(folder, step), package + "." + step
        return [one for one in found if os.path.isfile(one[0])]

    def imports(self, source, where, package):
        import ast
        tree = ast.parse(source, where)
        for node in ast.walk(tree):
            for module, _ in _imports_in(node, package):
                self.mentions_torch |= module.partition(".")[0] == "torch"
        for node in _statements(tree.body):
            for module, parts in _imports_in(node, package):
                files = self.own_files(module, parts)
                if files is None:
                    yield module, parts
                for file, inside in files or ():
                    if file not in self.seen:
                        self.seen.add(file)
                        try:
                            yield from list(self.imports(_text_of(file), file, inside))
                        except (OSError, SyntaxError, ValueError):  # The program will say so itself.
                            pass


def _text_of(file):
    import tokenize
    with tokenize.open(file) as script:
        return script.read()


def _spec(name, places):
    import sys
    found = (finder.find_spec(name, places) for finder in sys.meta_path if hasattr(finder, "find_spec"))
    return next((spec for spec in found if spec is not None), None)


def _spec_of(module):
    """Of what `-m` executes. Not by importlib.util.find_spec, which imports the packages around it."""
    spec, name, places = None, "", None
    for part in module.split("."):
        name += "." * bool(name) + part
        spec = _spec(name, places)
        if spec is None:
            return None
        places = spec.submodule_search_locations
    return spec if places is None else _spec(name + ".__main__", places)


def _source(program):
    """The program's text, its file, and the package that it is in."""
    import os
    kind, text = program
    if kind == "text":
        return text, "<string>", ""
    package = ""
    if kind == "module":
        spec = _spec_of(text)
        if spec is None or spec.origin is None:
            raise ImportError("no module '%s' to take imports from" % text)
        text, package = spec.origin, spec.parent
    if not os.path.isfile(text):  # Reading a pipe would wait, and take what is in it from the workers.
        raise OSError("the program '%s' is not a file" % text[-150:])
    return _text_of(text), text, package


def _is_harmless(node):
    """It cannot change what a later import finds, and may be executed twice."""
    import ast
    if isinstance(node, (ast.Import, ast.ImportFrom, ast.Try, ast.ExceptHandler)):  # Their statements count by themselves.
        return True
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return not node.decorator_list
    if isinstance(node, ast.If):
        return "TYPE_CHECKING" in ast.dump(node.test)
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        called = node.value.func  # Filters are put back in their order (_ddprun_trees.py).
        return isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name) and called.value.id == "warnings"
    if isinstance(node, (ast.Assign, ast.AnnAssign)):
        constant = all(isinstance(target, ast.Name) for target in getattr(node, "targets", None) or [node.target])
        return constant and not any(isinstance(one, (ast.Call, ast.Await)) for one in ast.walk(node))
    return isinstance(node, ast.Pass) or isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def what_comes_before_torch(program):
    """For people: a statement that may change what `import torch` loads, or may have an effect that must not come twice. That is
    not known before a worker has executed it, and then it is too late to start that worker in another way."""
    import ast
    import os
    source, name, package = _source(program)
    tree, first = ast.parse(source, name), None
    near = min(os.path.relpath(name) if os.path.isabs(name) else name, name, key=len)[-50:]

    def imports_torch(node):
        return any(module.partition(".")[0] == "torch" for module, _ in _imports_in(node, package))
    for node in _statements(tree.body):
        if imports_torch(node):
            return first and "%s:%d comes before `import torch` (line %d)" % (near, first, node.lineno)
        if first is None and not _is_harmless(node):
            first = node.lineno
    inside = [node.lineno for node in ast.walk(tree) if imports_torch(node)]
    return inside and "`import torch` is in a function (%s:%d)" % (near, min(inside))


def preload(wanted, program, path):
    """Returns which of the script's imports failed: module -> why. A module that is named must load."""
    import importlib
    failed, script, names = {}, None, wanted.split(",")
    left_out = tuple(name[1:] + "." for name in names if name.startswith("-"))

    def try_to_load(module, parts=()):
        try:
            if not (module + ".").startswith(left_out):
                loaded = importlib.import_module(module)
                for part in parts:
                    if part != "*" and not hasattr(loaded, part):
                        importlib.import_module(module + "." + part)
        except ModuleNotFoundError:  # The program does without it, or will say so itself.
            pass
        except BaseException as error:  # A program may do without it, even if it ends the process.
            failed[module] = "raises %s" % type(error).__name__

    for name in names:
        if name == "imports":
            source, where, package = _source(program)
            script = _Script(where, path, names)
            for module, parts in dict.fromkeys(script.imports(source, where, package)):
                try_to_load(module, parts)
        elif not name.startswith("-"):
            importlib.import_module(name)
    if script is not None and script.mentions_torch:
        try_to_load("torch._dynamo")  # DDP loads it at its first step.
    return failed
