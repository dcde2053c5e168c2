# SPDX-License-Identifier: Apache-2.0
"""Which modules a script is sure to import before it does anything else.

Statements are walked in the order in which they would run, by reading only: nothing of the script,
nor of the modules beside it, is executed. An import of a module from elsewhere is handed to the
host; a module beside the script is read and followed. The walk ends at the first statement that
might change what later imports do (a call, a changed variable, an unknown condition): from there on
the order of things belongs to the script. Needs no module that a bare interpreter has not loaded.
"""
import os
import sys

_PARSE_ONLY = 0x400  # compile()'s flag behind ast.parse(), whose module we do not want to load
# Calls without an effect on other modules; everything else ends the walk.
_HARMLESS_CALLS = frozenset(
    "bool dict float frozenset int len list range set str tuple namedtuple collections.namedtuple "
    "TypeVar typing.TypeVar ParamSpec NewType typing.NewType field dataclasses.field property "
    "Path pathlib.Path os.getenv os.environ.get os.path.join os.path.dirname os.path.abspath "
    "os.path.realpath os.path.basename os.path.exists os.path.expanduser os.getcwd "
    "logging.getLogger getLogger time.time time.monotonic time.perf_counter".split())
_QUIET = frozenset(
    "Constant Num Str Bytes NameConstant Ellipsis Name Attribute Tuple List Dict Set BinOp UnaryOp "
    "BoolOp Compare IfExp JoinedStr FormattedValue Subscript Slice Index ExtSlice Starred keyword "
    "ListComp SetComp DictComp GeneratorExp comprehension".split())


class Missing(Exception):
    """An import that finds no module; the script may have an answer to that."""


def parse(path):
    """The statements of a source file. Throws OSError, SyntaxError, ValueError."""
    with open(path, "rb") as file:
        text = file.read()
    return compile(text, path, "exec", _PARSE_ONLY, dont_inherit=True).body


def _kind(node):
    return type(node).__name__


def _children(node):
    for field in node._fields:
        value = getattr(node, field, None)
        for item in value if isinstance(value, list) else (value,):
            if hasattr(item, "_fields"):
                yield item


def _dotted(node):
    """a.b.c as text, or None."""
    parts = []
    while _kind(node) == "Attribute":
        parts.append(node.attr)
        node = node.value
    if _kind(node) != "Name":
        return None
    parts.append(node.id)
    return ".".join(reversed(parts))


def _is_quiet(node, any_call=False):
    """Evaluating it cannot change what an import does."""
    if node is None or _kind(node) == "Lambda":
        return True
    if _kind(node) == "Call":
        name = _dotted(node.func)
        if name is None or not (any_call or name in _HARMLESS_CALLS):
            return False
        return all(_is_quiet(part) for part in node.args + node.keywords)
    if _kind(node) in _QUIET:
        return all(_is_quiet(child) for child in _children(node))
    # What has no code of its own: operators and contexts (Add, Load, ...).
    return not node._fields


def _is_quiet_definition(node):
    """A definition binds a name; its decorators are taken to do no more than that."""
    if not all(_is_quiet(decorator, any_call=True) for decorator in node.decorator_list):
        return False
    if _kind(node) == "ClassDef":
        parts = node.bases + [keyword.value for keyword in node.keywords]
        return all(_is_quiet(part) for part in parts) and all(_is_idle(item) for item in node.body)
    return all(_is_quiet(part) for part in node.args.defaults + node.args.kw_defaults)


def _is_idle(node):
    """Neither imports nor changes anything beyond names of its own module."""
    kind = _kind(node)
    if kind == "Pass":
        return True
    if kind == "Expr":
        return _is_quiet(node.value)
    if kind in ("FunctionDef", "AsyncFunctionDef", "ClassDef"):
        return _is_quiet_definition(node)
    if kind in ("Assign", "AnnAssign", "AugAssign"):
        targets = node.targets if kind == "Assign" else [node.target]
        names = all(_kind(part) in ("Name", "Tuple", "List", "Store")
                    for target in targets for part in [target] + list(_children(target)))
        return names and _is_quiet(node.value)
    if kind == "If":
        return _is_quiet(node.test) and all(_is_idle(item) for item in node.body + node.orelse)
    return False


def _constant(node):
    """(known, value) of an expression that conditions of imports are made of."""
    kind = _kind(node)
    if kind in ("Constant", "NameConstant"):
        return True, node.value
    if kind in ("Num", "Str"):
        return True, node.n if kind == "Num" else node.s
    if kind == "Tuple":
        parts = [_constant(item) for item in node.elts]
        return all(known for known, _ in parts), tuple(value for _, value in parts)
    name = _dotted(node)
    known = {"sys.version_info": tuple(sys.version_info), "sys.platform": sys.platform,
             "os.name": os.name, "TYPE_CHECKING": False, "typing.TYPE_CHECKING": False}
    return (name in known, known.get(name))


def _condition(node, is_main):
    """True or False where that is sure, else None."""
    kind = _kind(node)
    if kind == "UnaryOp" and _kind(node.op) == "Not":
        inner = _condition(node.operand, is_main)
        return None if inner is None else not inner
    if kind == "Compare" and len(node.ops) == 1:
        left, right, operator = node.left, node.comparators[0], _kind(node.ops[0])
        if _dotted(left) == "__name__" and _constant(right) == (True, "__main__"):
            return {"Eq": is_main, "NotEq": not is_main}.get(operator)
        (left_known, a), (right_known, b) = _constant(left), _constant(right)
        if left_known and right_known and type(a) is type(b):
            tests = {"Eq": a.__eq__, "NotEq": a.__ne__, "Lt": a.__lt__, "LtE": a.__le__,
                     "Gt": a.__gt__, "GtE": a.__ge__}
            return tests[operator](b) if operator in tests else None
        return None
    known, value = _constant(node)
    return bool(value) if known else None


def _catches_import_errors(handler):
    names = handler.type.elts if _kind(handler.type) == "Tuple" else [handler.type]
    return handler.type is None or any(
        _dotted(name) in ("ImportError", "ModuleNotFoundError", "Exception", "BaseException")
        for name in names)


class Walk:
    """host.find(top name): a path of the script's own folder, "" for elsewhere, None for nowhere;
    host.load(name, names): imports from elsewhere, throws Missing; host.read(path): statements."""

    def __init__(self, host):
        self._host = host
        self._seen = set()

    def file(self, path, package, is_main):
        """Follow one file; False when the walk ended in it."""
        if (path, is_main) in self._seen:
            return True
        self._seen.add((path, is_main))
        return self._all(self._host.read(path), package, is_main)

    def _all(self, statements, package, is_main):
        return all(self._one(node, package, is_main) for node in statements)

    def _one(self, node, package, is_main):
        kind = _kind(node)
        if kind == "Import":
            return all(self._import(alias.name, ()) for alias in node.names)
        if kind == "ImportFrom":
            return self._import_from(node, package)
        if kind == "If":
            value = _condition(node.test, is_main)
            if value is not None:
                return self._all(node.body if value else node.orelse, package, is_main)
        if kind == "Try":
            return self._try(node, package, is_main)
        return _is_idle(node)

    def _try(self, node, package, is_main):
        try:
            going = self._all(node.body, package, is_main)
        except Missing:
            # A handler before it may name an error of the script's own, which this one is not.
            handlers = [one for one in node.handlers if _catches_import_errors(one)]
            if not handlers:
                raise
            going = self._all(handlers[0].body, package, is_main)
        else:
            going = going and self._all(node.orelse, package, is_main)
        return going and self._all(node.finalbody, package, is_main)

    def _import_from(self, node, package):
        names = tuple(alias.name for alias in node.names)
        if node.level == 0:
            return node.module == "__future__" or self._import(node.module, names)
        parts = package.split(".") if package else []
        if len(parts) < node.level:
            return False  # an error, which is the script's to report
        base = parts[:len(parts) - node.level + 1] + ([node.module] if node.module else [])
        return self._import(".".join(base), names)

    def _import(self, name, names):
        folder = self._host.find(name.partition(".")[0])
        if folder is None:
            raise Missing(name)
        if folder == "":
            self._host.load(name, names)
            return True
        return self._follow(folder, name.split("."), names)

    def _follow(self, folder, parts, names):
        """A module beside the script, the packages around it first, as an import would."""
        for depth, part in enumerate(parts):
            stem = os.path.join(folder, part)
            inside = ".".join(parts[:depth + 1])
            init = os.path.join(stem, "__init__.py")
            if os.path.isfile(init):
                if not self.file(init, inside, False):
                    return False
                folder = stem
            elif depth == len(parts) - 1 and os.path.isfile(stem + ".py"):
                return self.file(stem + ".py", ".".join(parts[:depth]), False)
            elif os.path.isdir(stem):
                folder = stem
            else:
                return False  # an extension, or nothing we understand
        return all(self._submodule(folder, parts, name) for name in names)

    def _submodule(self, folder, parts, name):
        """`from package import name`, where name may be a module of it."""
        stem = os.path.join(folder, name)
        package = ".".join(parts)
        init = os.path.join(stem, "__init__.py")
        if os.path.isfile(init):
            return self.file(init, package + "." + name, False)
        return not os.path.isfile(stem + ".py") or self.file(stem + ".py", package, False)
