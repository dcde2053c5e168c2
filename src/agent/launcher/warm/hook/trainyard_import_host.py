# SPDX-License-Identifier: Apache-2.0
"""Imports what trainyard_script_imports finds in a script, and knows what would make that wrong.

Only what comes from elsewhere is imported: a module in the script's own folder or in the working
folder is read and followed, unless it is an installed one (a virtual environment lies there, too).
The script's folder is not on sys.path yet, but a cold start would look there first: names that it
offers must not be asked for meanwhile. Before the script runs, everything that was read is compared
with what is there then.
"""
import os
import sys

import trainyard_script_imports as walker

_external = sys.modules["_frozen_importlib_external"]
_SUFFIXES = frozenset(_external.SOURCE_SUFFIXES + _external.BYTECODE_SUFFIXES +
                      sys.modules["_imp"].extension_suffixes())


class Imports:
    """The host of one Walk."""

    def __init__(self, kind, target, cold):
        self._cold = cold
        self._kind = kind
        self._target = target
        self._modules_before = set(sys.modules)
        self._asked = set()
        self._files = {}  # path: what tells whether it was changed
        stdlib = os.path.dirname(os.path.realpath(os.__file__))
        self._stdlib = (stdlib + os.sep, os.path.dirname(os.__file__) + os.sep)
        here = os.getcwd()
        self._folder = here if kind == "module" else os.path.dirname(os.path.realpath(target))
        self._folders = {self._folder, here}
        self._listing = self._list()
        self._watch = None
        self._shadow = None

    def run(self):
        origin, package, parents = self._locate_target()
        # Some modules look at __main__ to see whether they are used at a prompt, or name
        # themselves after the program.
        main = sys.modules["__main__"]
        argv0 = sys.argv[0]
        main.__file__ = origin
        sys.argv[0] = origin if self._kind == "module" else argv0
        self._watch = self._finder()
        try:
            walk = walker.Walk(self)
            if all(walk.file(*parent) for parent in parents):
                walk.file(origin, package, True)
        finally:
            sys.meta_path.remove(self._watch)
            sys.argv[0] = argv0
            del main.__file__

    def _locate_target(self):
        if self._kind == "script":
            path = self._target
            if sys.version_info >= (3, 9) and not os.path.isabs(path):
                path = os.path.join(os.getcwd(), path)
            return path, "", []
        # runpy imports the packages around the module, then runs the module or its __main__.
        if self.find(self._target.partition(".")[0]) != self._folder:
            self._cold("module %s is not in the working folder" % self._target)
        folder, package, parents = self._folder, "", []
        for part in self._target.split("."):
            parents_of = os.path.join(folder, part)
            package = package + "." + part if package else part
            init = os.path.join(parents_of, "__init__.py")
            if os.path.isfile(init):
                parents.append((init, package, False))
            folder = parents_of
        if os.path.isfile(os.path.join(folder, "__main__.py")):
            return os.path.join(folder, "__main__.py"), package, parents
        if os.path.isfile(folder + ".py"):
            return folder + ".py", package.rpartition(".")[0], parents
        self._cold("module %s is not in the working folder" % self._target)

    def _list(self, only=None):
        """Top-level names that the script's folder offers: {name: is a mere folder}."""
        names = {}
        with os.scandir(self._folder) as entries:
            for entry in entries:
                name, dot, suffix = entry.name.partition(".")
                if only is not None and name not in only:
                    continue
                if not dot and entry.is_dir():
                    inside = os.path.join(entry.path, "__init__")
                    mere = not any(os.path.exists(inside + end)
                                   for end in _SUFFIXES)
                    names[name] = mere and names.get(name, True)
                elif "." + suffix in _SUFFIXES:
                    names[name] = False
        return names

    def _finder(self):
        """Sees each top-level name that is looked for on sys.path; finds nothing itself."""
        imports = self

        class Finder:
            @staticmethod
            def find_spec(name, path=None, target=None):
                if path is None:
                    imports._asked.add(name)
                    if imports._shadowed(name):
                        # Whoever asks may live with an error, or take it for an answer.
                        imports._shadow = name

        places = [i for i, one in enumerate(sys.meta_path)
                  if one is _external.PathFinder]
        sys.meta_path.insert(places[0] if places else len(sys.meta_path), Finder)
        return Finder

    def _shadowed(self, name):
        """The script's folder comes first in sys.path, but for mere folders, which come last."""
        if name not in self._listing:
            return False
        return not self._listing[name] or _external.PathFinder.find_spec(name) is None

    def find(self, top):
        self._asked.add(top)
        if top in self._modules_before:
            return ""
        for finder in sys.meta_path:
            if finder is self._watch:
                continue
            if finder is _external.PathFinder and not self._listing.get(top, True):
                return self._folder
            spec = finder.find_spec(top, None) if hasattr(finder, "find_spec") else None
            if spec is not None:
                origin = spec.origin if spec.has_location else None
                if origin is None or not self._is_ours(origin):
                    return ""
                folder = os.path.dirname(origin)
                is_package = spec.submodule_search_locations is not None
                return os.path.dirname(folder) if is_package else folder
        return self._folder if top in self._listing else None

    def load(self, name, names):
        try:
            module = __import__(name, {}, {}, names, 0)
        except ModuleNotFoundError as error:
            # Not there at all: nothing has been run that the script would run again.
            if error.name and (name + ".").startswith(error.name + "."):
                raise walker.Missing("no module named " + name) from None
            raise
        for item in names:
            if item != "*" and not hasattr(module, item) and (
                    "%s.%s" % (module.__name__, item)) not in sys.modules:
                raise walker.Missing("%s has no %s" % (name, item))

    def read(self, path):
        status = os.stat(path)
        statements = walker.parse(path)
        self._files[path] = (status.st_mtime_ns, status.st_size, status.st_ino)
        return statements

    def _is_installed(self, path):
        return (path.startswith(self._stdlib) or (os.sep + "site-packages" + os.sep) in path or
                (os.sep + "dist-packages" + os.sep) in path)

    def _is_ours(self, path):
        return not self._is_installed(path) and any(
            path.startswith(os.path.join(folder, "")) for folder in self._folders)

    def check(self):
        """After the imports: what they did and must not have done."""
        cold = self._cold
        if self._shadow:
            cold("%s of the script's folder shadows a module" % self._shadow)
        for name, module in list(sys.modules.items()):
            path = getattr(module, "__file__", None)
            if name in self._modules_before or not isinstance(path, str):
                continue
            if not os.path.isabs(path):
                continue  # made up, by a module that makes others
            if self._is_ours(path):
                cold("an import has loaded %s from the script's folder" % name)
            if not self._is_installed(path):
                try:
                    status = os.stat(path)
                    self._files[path] = (status.st_mtime_ns, status.st_size, status.st_ino)
                except OSError:
                    cold("%s is gone" % path)
        if self._kind == "module" and self._target in sys.modules:
            cold("an import has loaded %s itself" % self._target)

    def stale(self):
        """What a cold start would see differently now, or None."""
        for path, known in self._files.items():
            try:
                status = os.stat(path)
                if known == (status.st_mtime_ns, status.st_size, status.st_ino):
                    continue
            except OSError:
                pass
            return path + " was changed"
        listing = self._list(self._asked)
        for name in self._asked:
            if listing.get(name) != self._listing.get(name):
                return "%s of the script's folder was changed" % name
        return None
