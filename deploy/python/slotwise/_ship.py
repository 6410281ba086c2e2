"""Packs the functions of a job into a file that Python runs on any worker.

The file is a zip archive with the module of this package that runs tasks, the source of
the user's modules, and a description of the functions. Two rules say how a function gets there:

- A function that its module offers by name is imported by that name. The module is shipped with
  its whole package if the source is the user's own. Modules of Python and of installed packages
  are not shipped: the workers need them.
- A function of __main__ (a script or a notebook) or one defined inside another function is
  shipped as its source text, with the functions, classes and constants of its module that the
  text names. The script itself is not run again, so it needs no guard.

Lambdas and closures are refused: Python gives no source of a lambda alone, and the variables
of a closure have values that no source shows. functools.partial passes parameters.
"""

from __future__ import annotations

import __future__
import ast
import dis
import functools
import inspect
import io
import pathlib
import site
import sys
import sysconfig
import textwrap
import types
import zipfile
from typing import Any, Callable, Iterable, Iterator, Optional

from ._program import Error

MAX_BYTES = 64 << 20  # of the shipped sources; a package of data belongs into files=

_MAIN = """\
import sys
if sys.version_info < (3, 10):
    sys.exit("jobs of the Python package slotwise need Python 3.10 or later on each worker, and %s is %s" % (sys.executable, sys.version.split()[0]))
from slotwise import _worker
_worker.main(sys.argv[1])
"""

# On a worker the package is imported in parts, because each task starts Python anew: first the
# module that runs tasks, and all others, which a module of the user may name, only on demand.
_INIT = """\
from . import _worker
from ._worker import count

def __getattr__(name):
    if name.startswith("_"):
        raise AttributeError(name)
    from . import _client
    return getattr(_client, name)
"""


class Bundle:
    """The files of one archive, under construction."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        # The statements that define each name of the job's module, in the order in which they run there.
        # Names of the archive's own begin with _slotwise_, because all other names are the user's.
        self.sources: dict[str, str] = {}
        self.values: dict[str, Any] = {}  # what the user's module has for each name that value has added
        self.shipped: dict[int, tuple[Any, str]] = {}  # functions and classes in sources, with their names there, by id
        self.late: dict[str, str] = {}  # second names of functions whose text was not complete yet
        self.submodules: dict[str, None] = {}  # what the texts name as package.module
        self.future = False  # a source was written under "from __future__ import annotations"
        self.visited: set[str] = set()  # modules whose references have been followed

    def reference(self, function: Callable[..., Any], role: str) -> str:
        """Makes a function available on the worker and returns the expression for it."""
        if isinstance(function, functools.partial):
            parts = [self.reference(function.func, role)]
            parts += [_literal(arg, f"an argument of the {role}'s partial") for arg in function.args]
            parts += [f"{name}={_literal(arg, f'the argument {name} of the {role}s partial')}" for name, arg in function.keywords.items()]
            return f"_slotwise_functools.partial({', '.join(parts)})"
        if not isinstance(function, (types.FunctionType, types.BuiltinFunctionType)):
            raise Error(f"the {role} {function!r} is not a function: define it with def, or use functools.partial of one")
        if function.__name__ == "<lambda>":
            raise Error(f"the {role} is a lambda, whose source Python cannot find: define it with def and a name")
        if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
            raise Error(f"the {role} {function.__name__} is an async function, and tasks call plain ones: define it with def; "
                        "inside it, asyncio.run runs what is async")
        named = _importable(function)
        if named:
            self.module(sys.modules[named])
            alias = f"_slotwise_{role}_module"
            self.sources[alias] = f"import {named} as {alias}"
            return f"{alias}.{function.__qualname__}"
        assert isinstance(function, types.FunctionType)
        return self.source(function, function.__globals__)

    def source(self, thing: Any, scope: dict[str, Any]) -> str:
        """Adds the text of a function or class, after what the text names, and returns its name in the job's module.

        That is its own name if the user's module has it by this name. Otherwise, as after a
        redefinition, the name belongs to something else or to nothing, and the function gets a name of the archive's.
        """
        if id(thing) in self.shipped:
            return self.shipped[id(thing)][1]
        name: str = thing.__name__
        inner = getattr(_uncached(thing), "__code__", None)
        free = getattr(inner, "co_freevars", ())
        if free:
            raise Error(f"{name} is a closure: it uses {', '.join(free)} of the function around it, whose values cannot be shipped. "
                        f"Make them parameters, and pass functools.partial({name}, {free[0]}=...)")
        key = name
        if scope.get(name) is not thing:
            if isinstance(thing, type):
                raise Error(f"the class {name} is not what {name} names in its module, as after a redefinition: define it at the module's top level with a name of its own")
            key = f"_slotwise_{len(self.shipped)}_{name}"
        elif name in self.sources:
            raise _ambiguous(name)
        try:
            # Before Python 3.13 inspect finds a class by its name, and returns the first class of this name.
            if isinstance(thing, type) and sys.version_info < (3, 13) and _classes(ast.parse("".join(inspect.findsource(thing)[0])), name) > 1:
                raise Error(f"there are two classes {name}, and this Python cannot tell their sources apart: give one of the two another name, or use Python 3.13")
            text = textwrap.dedent(inspect.getsource(thing))
        except (OSError, TypeError) as e:
            raise Error(f"{name} has no source that can be shipped ({e}): put it into a module of its own") from None
        tree = ast.parse(text, name)
        code = compile(tree, name, "exec", dont_inherit=True)
        self.future = self.future or bool(getattr(inner, "co_flags", 0) & __future__.annotations.compiler_flag)
        self.shipped[id(thing)] = thing, key
        self.sources[key] = ""  # its place, so that functions that call each other end the recursion
        self.values[key] = thing
        for global_name in _globals(code):
            if global_name in scope and scope[global_name] is not thing:
                self.value(global_name, scope[global_name], scope, name)
        for node in ast.walk(tree):
            self.submodule(node, scope)
        if key != name:
            # def binds the function's own name, which may be another function's.
            text = f"_slotwise_kept = globals().get({name!r})\n{text}\n{key}, {name} = {name}, _slotwise_kept"
        del self.sources[key]
        self.sources[key] = text
        return key

    def value(self, name: str, value: Any, scope: dict[str, Any], user: str) -> None:
        """Adds a global variable that the text of user names."""
        if name in self.values and self.values[name] is value:
            return
        named = _importable(value)
        if isinstance(value, types.ModuleType):
            self.module(value)
            text = f"import {value.__name__} as {name}"
        elif named:
            self.module(sys.modules[named])
            text = f"from {named} import {value.__qualname__} as {name}"
        elif isinstance(value, (types.FunctionType, type, functools._lru_cache_wrapper)):
            key = self.source(value, getattr(_uncached(value), "__globals__", scope))
            if key == name:
                return
            text = f"{name} = {key}"
            if not self.sources[key]:
                # The two call each other: the function's text follows this one.
                self.late[name] = text
                text = ""
        else:
            text = f"{name} = {_literal(value, f'the variable {name}, which {user} uses,')}"
        if self.sources.get(name, text) != text:
            raise _ambiguous(name)
        self.sources[name] = text
        self.values[name] = value

    def submodule(self, node: ast.AST, scope: dict[str, Any]) -> Optional[types.ModuleType]:
        """Returns the module that an expression such as xml.etree names, or None, and has the job import it.

        To import xml alone gives no xml.etree on the worker: there nothing else has imported it.
        """
        if isinstance(node, ast.Name):
            named = scope.get(node.id)
            return named if isinstance(named, types.ModuleType) else None
        package = self.submodule(node.value, scope) if isinstance(node, ast.Attribute) else None
        if package is None or not isinstance(node, ast.Attribute):
            return None
        name = f"{package.__name__}.{node.attr}"
        module = getattr(package, node.attr, None)
        if not isinstance(module, types.ModuleType) or sys.modules.get(name) is not module:
            return None
        self.module(module)
        self.submodules[name] = None
        return module

    def module(self, module: types.ModuleType) -> None:
        """Adds a module's package, and the user's own modules that it refers to."""
        if module.__name__ in self.visited or not _own(module):
            return
        self.visited.add(module.__name__)
        top = sys.modules[module.__name__.partition(".")[0]]
        if hasattr(top, "__path__"):
            for root in map(pathlib.Path, top.__path__):
                for file in sorted(root.rglob("*")):
                    if file.is_file() and "__pycache__" not in file.parts:
                        self.add(f"{top.__name__}/{file.relative_to(root).as_posix()}", file)
        else:
            assert top.__file__
            self.add(f"{top.__name__}.py", pathlib.Path(top.__file__))
        for value in list(vars(module).values()):
            other = value if isinstance(value, types.ModuleType) else sys.modules.get(str(getattr(value, "__module__", None)))
            if other is not None and other.__name__ != "__main__":
                self.module(other)

    def add(self, name: str, file: pathlib.Path) -> None:
        """Adds a file of a module."""
        if file.suffix in (".so", ".pyd", ".dylib"):
            raise Error(f"{file} is compiled, and Python cannot import it from an archive: install the package on the workers")
        self.files[name] = file.read_bytes()
        if sum(map(len, self.files.values())) > MAX_BYTES:
            raise Error(f"the modules of the job are larger than {MAX_BYTES >> 20} MiB, with {file}: install the package on the workers, or pass data in files=")

    def archive(self, roles: str) -> bytes:
        """Returns the zip archive. The same functions give the same bytes."""
        package = {f"slotwise/{file.name}": file.read_bytes() for file in pathlib.Path(__file__).parent.glob("*.py")}
        package["slotwise/_client.py"] = package.pop("slotwise/__init__.py")
        head = "from __future__ import annotations\n" if self.future else ""
        imports = ["import functools as _slotwise_functools", *(f"import {name} as _slotwise_submodule" for name in self.submodules)]
        job = head + "\n\n".join(["\n".join(imports), *self.sources.values(), *self.late.values(), f"_slotwise_roles = {roles}\n"])
        files = {**package, "__main__.py": _MAIN.encode(), "slotwise/__init__.py": _INIT.encode(), "_slotwise_job.py": job.encode()}
        # Python finds a package without __init__.py in an archive only by the entry of its directory.
        files.update({f"{parent}/": b"" for name in self.files for parent in pathlib.PurePosixPath(name).parents[:-1]})
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as z:
            for name, data in sorted({**self.files, **files}.items()):
                z.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), data, zipfile.ZIP_DEFLATED)
        return out.getvalue()


def ship(functions: dict[str, Callable[..., Any]], decoder: str, fields: bool, modules: Iterable[types.ModuleType]) -> bytes:
    """Returns the archive for the functions, by role. fields is about the last role's output.

    modules are further modules to ship: what functions import while they run is not visible.
    """
    bundle = Bundle()
    for module in modules:
        if not _own(module):
            raise Error(f"modules: {module.__name__} has no file of yours to ship; the workers need it installed")
        bundle.module(module)
    last = "reducer" if "reducer" in functions else "mapper"
    roles = [f"{role!r}: ({bundle.reference(f, role)}, {decoder!r}, {fields and role == last})" for role, f in functions.items()]
    return bundle.archive("{" + ", ".join(roles) + "}")


def _uncached(thing: Any) -> Any:
    """Returns the function below functools.cache. Its source has the decorator."""
    return thing.__wrapped__ if isinstance(thing, functools._lru_cache_wrapper) else thing


def _ambiguous(name: str) -> Error:
    return Error(f"two modules of the job's functions have different things named {name}, and the shipped functions share one module: "
                 "give one of the two another name")


def _classes(node: ast.AST, name: str) -> int:
    """Returns how often a module's top level, with its if and try statements, defines the class name."""
    n = 0
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            n += child.name == name
        elif not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            n += _classes(child, name)
    return n


def _importable(thing: Any) -> Optional[str]:
    """Returns the module that offers a function or class by its qualified name, or None."""
    name, qualname = getattr(thing, "__module__", None), getattr(thing, "__qualname__", None)
    if not isinstance(name, str) or not isinstance(qualname, str) or name == "__main__" or name not in sys.modules:
        return None
    found: Any = sys.modules[name]
    for part in qualname.split("."):
        found = getattr(found, part, None)
    return name if found is thing else None


def _own(module: types.ModuleType) -> bool:
    """Reports whether a module is the user's: its source is a file outside Python and its packages."""
    top = sys.modules.get(module.__name__.partition(".")[0])
    file = getattr(top, "__file__", None) or next(iter(getattr(top, "__path__", ())), None)
    if top is None or file is None or top.__name__ in ("__main__", "slotwise"):
        return False
    installed = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    installed += [*site.getsitepackages(), site.getusersitepackages()]
    path = pathlib.Path(file).resolve()
    return not any(path.is_relative_to(pathlib.Path(root).resolve()) for root in installed)


def _globals(code: types.CodeType) -> Iterator[str]:
    """Yields the names that a program's text takes from its module."""
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield instruction.argval
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _globals(constant)


def _literal(value: Any, what: str) -> str:
    """Returns the text of a constant."""
    text = repr(value)
    try:
        if len(text) < MAX_BYTES and ast.literal_eval(text) == value:
            return text
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        pass
    raise Error(f"{what} is a {type(value).__name__} and cannot be shipped: only numbers, text and collections of them can. Make it in the function, or in a module")
