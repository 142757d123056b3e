"""The order of the modules: none imports itself through others, for types and in functions too."""

import ast
import shutil
import tempfile
import unittest
from pathlib import Path

from server import ROOT

PACKAGE = ROOT / "src" / "bellwether_client"
#: Ways in which `_transport`, which `_client` imports, can import `_client`.
FAULTS = {
    "at the top": "from ._client import Client",
    "of the module": "from . import _client",
    "by the name of the package": "import bellwether_client._client",
    "from the package": "from bellwether_client import _client",
    "in a function": "def late():\n    from ._client import Client",
    "for types": "if TYPE_CHECKING:\n    from ._client import Client",
    "of the whole package": "from . import Client",
    "through a new module": "from . import between",
}


def imported(tree, name, modules):
    """Yields the modules of the package that a module imports anywhere."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            paths = [one.name.split(".") for one in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = [name] if node.level else []
            start += (node.module or "").split(".") if node.module else []
            paths = [[*start, one.name] for one in node.names]
        else:
            continue
        for path in paths:
            if path[0] == name:
                # Another name of the package itself is defined in `__init__`.
                inside = path[1] if len(path) > 1 and path[1] in modules else "__init__"
                yield inside


def arrows(package):
    """Returns the modules of a package, each with those that it imports."""
    modules = {file.stem: file for file in sorted(package.glob("*.py"))}
    found = {}
    for module, file in modules.items():
        tree = ast.parse(file.read_text(encoding="utf-8"))
        found[module] = sorted(set(imported(tree, package.name, modules)) - {module})
    return found


def circle(found):
    """Returns modules that import one another in a circle; None if there are none."""
    done = set()

    def search(module, path):
        if module in path:
            return path[path.index(module) :] + [module]
        if module in done:
            return None
        for target in found[module]:
            seen = search(target, path + [module])
            if seen:
                return seen
        done.add(module)
        return None

    for module in found:
        seen = search(module, [])
        if seen:
            return seen
    return None


class Order(unittest.TestCase):
    def test_no_module_imports_itself_through_others(self):
        found = arrows(PACKAGE)
        seen = circle(found)
        self.assertIsNone(seen, "modules import one another: " + " -> ".join(seen or ()))
        # The reading sees imports of each kind.
        self.assertIn("_transport", found["_client"])
        self.assertIn("_watch", found["_client"], "in a function")
        self.assertIn("_roles", found["_work"], "for types")

    def test_a_circle_is_found(self):
        for what, fault in FAULTS.items():
            with self.subTest(what), tempfile.TemporaryDirectory() as folder:
                package = Path(folder) / PACKAGE.name
                shutil.copytree(str(PACKAGE), str(package))
                (package / "between.py").write_text("from . import _client\n", encoding="utf-8")
                with open(str(package / "_transport.py"), "a", encoding="utf-8") as file:
                    file.write("\n\n{}\n".format(fault))
                seen = circle(arrows(package))
                self.assertIsNotNone(seen)
                self.assertTrue({"_transport", "_client"} <= set(seen), seen)


if __name__ == "__main__":
    unittest.main()
