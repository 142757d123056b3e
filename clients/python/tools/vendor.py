#!/usr/bin/env python3
"""Writes the package as one file, for the `lib` folder of a charm that takes no packages.

usage: vendor.py FILE

A charm has it as lib/bellwether_client.py. Each module of the package is a function in the file, so
that its names stay its own, and `import bellwether_client.ops` works as with the package.
"""

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "bellwether_client"
#: The modules, each after those that it imports. `messages` and `_roles` have types only, and
#: are left out.
MODULES = (
    "_needs",
    "_secrets",
    "_texts",
    "errors",
    "_table",
    "_codec",
    "_trace",
    "_transport",
    "_methods",
    "_watch",
    "_client",
    "_log",
    "_state",
    "_classes",
    "_rules",
    "_evidence",
    "_classify",
    "_deliver",
    "_raised",
    "_charm",
    "_data",
    "_work",
    "_hook",
    "ops",
    "advanced_statuses",
    "testing",
)
HEAD = '''"""{title}

This is the package bellwether-client {version} as one file. Copy it into `lib/` of a charm.
"""

# Made by tools/vendor.py from src/bellwether_client; change the package instead.
# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors

from __future__ import annotations

import sys
import types

__version__ = "{version}"


def _add(name, define):
    """Makes a module of the package from the function that defines it."""
    module = types.ModuleType("{{}}.{{}}".format(__name__, name), define.__doc__)
    for key, value in define().items():
        if isinstance(value, type) and "<locals>" in value.__qualname__:
            value.__qualname__ = value.__qualname__.rpartition("<locals>.")[2]
            value.__module__ = module.__name__
        setattr(module, key, value)
    sys.modules[module.__name__] = module
    globals()[name] = module
'''


def replacements(tree):
    """Yields the statements that refer to the package, with what replaces each."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            yield node, ""
        elif isinstance(node, ast.ImportFrom) and node.level == 1:
            if node.module is None:
                # The modules are names of the file.
                yield node, "pass"
                continue
            lines = []
            for one in node.names:
                lines.append("{} = {}.{}".format(one.asname or one.name, node.module, one.name))
            yield node, "; ".join(lines) if node.col_offset else "\n".join(lines)
        elif isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
            yield node, ""
        elif isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "TYPE_CHECKING":
            yield node, ""


def rewritten(source):
    """Returns the source of a module without imports of the package."""
    lines = source.splitlines()
    found = sorted(replacements(ast.parse(source)), key=lambda one: -one[0].lineno)
    for node, text in found:
        indent = " " * node.col_offset
        made = [indent + line for line in text.split("\n")] if text else []
        lines[node.lineno - 1 : node.end_lineno] = made
    return lines


def section(name):
    """Returns a module as a function that defines its names."""
    source = (PACKAGE / (name + ".py")).read_text(encoding="utf-8")
    body = ["    " + line if line.strip() else "" for line in rewritten(source)]
    text = "\n".join(body).rstrip("\n")
    while "\n\n\n\n" in text:
        text = text.replace("\n\n\n\n", "\n\n\n")
    define = "_define_" + name.strip("_")
    return '\n\ndef {0}():\n{1}\n    return locals()\n\n\n_add("{2}", {0})\n'.format(
        define, text, name
    )


def exported():
    """Returns the names of the package itself."""
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    lines, title, version = [], ast.get_docstring(tree).splitlines()[0], ""
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.level == 1:
            lines += ["{0} = {1}.{0}".format(one.name, node.module) for one in node.names]
        elif isinstance(node, ast.Assign) and node.targets[0].id == "__version__":
            version = node.value.value
        elif isinstance(node, ast.Assign) and node.targets[0].id == "__all__":
            names = [one.value for one in node.value.elts]
    lines += ["Event = _watch.Event", "Watch = _watch.Watch"]
    lines += ["StatusReporter = ops.StatusReporter", ""]
    lines.append("__all__ = [")
    lines += ['    "{}",'.format(name) for name in sorted([*names, "StatusReporter"])]
    return title, version, "\n" + "\n".join([*lines, "]"]) + "\n"


def made():
    """Returns the file."""
    title, version, names = exported()
    head = HEAD.format(title=title, version=version)
    return head + "".join(section(name) for name in MODULES) + names


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    file = Path(sys.argv[1])
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(made(), encoding="utf-8")


if __name__ == "__main__":
    main()
