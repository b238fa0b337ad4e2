"""Compile the package's C sources when a wheel or an editable installation is made."""

import importlib.util
import sysconfig
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompileEngine(BuildHookInterface):
    """A wheel for one platform and any Python: the library is loaded by ctypes."""

    def dependencies(self) -> list[str]:
        """Zig's C compiler, which is a package like any other, where there is no other."""
        return [] if self._build().compiler() else ["ziglang"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Editable installations have the library beside its sources, wheels inside."""
        build = self._build()
        if version == "editable":
            build.build(build.HERE)
            return
        made = build.build(Path(self.root) / "build" / "native")
        build_data["force_include"][str(made)] = f"biasfree/native/{made.name}"
        build_data["pure_python"] = False
        build_data["tag"] = "py3-none-" + sysconfig.get_platform().replace("-", "_").replace(".", "_")

    def _build(self) -> ModuleType:
        """The package's own builder, without importing the package."""
        path = Path(self.root) / "src" / "biasfree" / "native" / "_build.py"
        spec = importlib.util.spec_from_file_location("build", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
