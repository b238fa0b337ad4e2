"""What C and Python must both know: members of structures, arguments of functions, codes and room.

Nothing checks these when the library is loaded. A member added in one language alone would make C read other memory
than Python has filled, so every one of them is read from the C sources here and compared.
"""

import ctypes
import importlib
import re
from typing import Any

import pytest

import biasfree
from biasfree import switching
from biasfree.dynamics import _many_lines, _vector_field
from biasfree.dynamics.exact import (
    _alone,
    _arrays,
    _balance,
    _carried,
    _data,
    _events,
    _follow,
    _kernels,
    _kicks,
    _methods,
    _parting,
    _rest,
    _sliding,
    _travel,
)
from biasfree.native import _build, library
from biasfree.switching import _compiled

SOURCES = {
    path.name: re.sub(r"/\*.*?\*/", " ", path.read_text("utf-8"), flags=re.DOTALL)
    for path in sorted(_build.HERE.iterdir())
    if path.suffix in {".c", ".h"}
}
KINDS: dict[Any, str] = {
    ctypes.c_void_p: "pointer",
    ctypes.c_double: "number",
    ctypes.c_int64: "whole",
    None: "nothing",
}
IN_C = {"double": "number", "int64_t": "whole", "void": "nothing"}
SHARED_NAMES = {"Work": "follow.c"}  # structures of two files have this name: whose is Python's

Members = list[tuple[str, str]]


def declared(text: str) -> Members:
    """Names and kinds of what C declares, one after the other: ``const double *a, *b`` or ``int64_t c``."""
    words = re.match(r"\s*(?:const\s+)?(\w+)\s*(.*)", text, re.DOTALL)
    assert words, text
    base, members = words.groups()
    found = []
    for each in members.split(","):
        name = re.search(r"\w+$", each.strip())
        assert name, text
        assert "[" not in each, f"arrays within structures are not known here: {text}"
        found.append((name[0], "pointer" if "*" in each else IN_C.get(base, base)))
    return found


def structures_of_c() -> dict[tuple[str, str], Members]:
    """Members of every structure, by file and name; those of C alone, with arrays or functions, are left out."""
    found = {}
    for file, text in SOURCES.items():
        for body, name in re.findall(r"typedef struct \{([^}]*)\}\s*(\w+);", text):
            if "[" not in body and "(" not in body:
                found[file, name] = [m for part in body.split(";") if part.strip() for m in declared(part)]
    return found


def structures_of_python() -> list[type[ctypes.Structure]]:
    """Every structure that a module of ours has made."""
    found = {}
    root = _build.HERE.parent
    for path in sorted(root.rglob("*.py")):
        if path.parent != _build.HERE and re.search(r"\bstructure\(\s*\"|ctypes\.Structure\)", path.read_text("utf-8")):
            module = importlib.import_module(
                ".".join((biasfree.__name__, *path.relative_to(root).with_suffix("").parts))
            )
            for each in vars(module).values():
                if isinstance(each, type) and issubclass(each, ctypes.Structure) and each is not ctypes.Structure:
                    found[each.__name__] = each
    return list(found.values())


def functions_of_c() -> dict[str, list[str]]:
    """What every exported function gives back, and the kinds of its arguments."""
    found = {}
    for text in SOURCES.values():
        for gives, name, arguments in re.findall(r"PUBLIC\s+(\w+)\s+(biasfree_\w+)\(([^)]*)\)", text):
            kinds = [declared(each)[0][1] for each in arguments.split(",")]
            assert found.setdefault(name, [IN_C[gives], *kinds]) == [IN_C[gives], *kinds]
    return found


def numbers(file: str) -> dict[str, float]:
    """Every number that a C source has named, by an enumeration or a definition."""
    text = SOURCES[file]
    named = re.findall(r"^#define (\w+) ([\d.e-]+)\s*$", text, re.MULTILINE)
    for body in re.findall(r"enum \{([^}]*)\}", text):
        named += re.findall(r"(\w+) = (-?\d+)", body)
    return {name: float(value) for name, value in named}


STRUCTURES = structures_of_python()
FUNCTIONS = functions_of_c()


def test_none_is_overlooked() -> None:
    written = set()
    for path in _build.HERE.parent.rglob("*.py"):
        if path.parent != _build.HERE:
            text = path.read_text("utf-8")
            written |= set(re.findall(r"\bstructure\(\s*\"(\w+)\"", text))
            written |= set(re.findall(r"class (\w+)\(ctypes\.Structure\)", text))
    assert {each.__name__ for each in STRUCTURES} == written
    assert len(written) > 25
    assert sum(text.count("PUBLIC ") for text in SOURCES.values()) >= len(FUNCTIONS) > 40


@pytest.mark.parametrize("ours", STRUCTURES, ids=lambda each: each.__name__)
def test_structures_have_the_same_members(ours: type[ctypes.Structure]) -> None:
    name = ours.__name__
    theirs = {file: members for (file, each), members in structures_of_c().items() if each == name}
    if name in SHARED_NAMES:
        theirs = {SHARED_NAMES[name]: theirs[SHARED_NAMES[name]]}
    assert len(theirs) == 1, f"{name} is in {sorted(theirs)}"
    (members,) = theirs.values()
    # "long" and "short" are words of C itself.
    plain = [(re.sub(r"^(long|short)_step$", r"\1", member), kind) for member, kind in members]
    assert [(member, KINDS.get(kind, kind.__name__)) for member, kind in ours._fields_] == plain  # type: ignore[misc]


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_functions_take_the_same_arguments(name: str) -> None:
    function = getattr(library(), name)
    assert function.argtypes is not None, f"{name} has no types in biasfree.native"
    assert [KINDS[kind] for kind in (function.restype, *function.argtypes)] == FUNCTIONS[name]


# What both name: by C's source and name, Python's number.
NAMED: dict[str, dict[str, float]] = {
    "engine.h": {
        **{name: getattr(_data, name) for name in ("SQUARE", "LOGISTIC", "EXPONENTIAL", "CROSS_ENTROPY")},
        "START": _arrays.START, "NODES": len(_methods.NODES), "STAGES": _methods.TABLES.a.shape[1],
        "MOST_OUTPUTS": _kicks._MOST_OUTPUTS, "BLUR": _kernels.BLUR,
        "ROUNDING": _kernels.ROUNDING,
    },
    "pace.h": {"LONG": _methods.ORDER_8.number, "SHORT": _methods.ORDER_5.number},
    "march.c": {"SHORT_ORDER": _methods.ORDER_5.order},
    "travel.h": {"NO_V": _sliding._VANISHED, "NO_W": _sliding._NO_W, "LAST": _sliding._LAST, "UNFELT": _alone._UNFELT},
    "travel.c": {"ELSE": _travel._NOT_PLAIN, "AT_ZERO": _travel._AT_ZERO, "SLOW": _rest._SLOW},
    "happen.c": {"TOGETHER": _events._TOGETHER, "SOON": _parting._SOON, "BEARS": _carried._BEARS},
    "decide.c": {"BRIEF": _sliding.BRIEF},
    "follow.c": {
        "FINISHED": _compiled.DONE, "MET": _compiled.MET, "FULL": _compiled.FULL, "NO_SECOND": switching.NO_SECOND,
    },
    "search.c": {"STACK": _arrays._STACK[1]},
    "deep.c": {"DEEPEST_NETWORK": _vector_field._DEEPEST},
    "wide.c": {"BLOCK": _many_lines.BLOCK, "GROUP": _many_lines._GROUP},
    "balance.c": {"ROUNDS": _balance._ROUNDS},
    "light.c": {"VANISHES": _carried._VANISHES},
    "alone.c": {"NO_EVENT": -1, "STEPS": _follow._STEPS, "MOST_ARCS": _follow._MOST},
}  # fmt: skip


@pytest.mark.parametrize(("file", "name"), [(file, name) for file, names in NAMED.items() for name in names])
def test_named_numbers_are_equal(file: str, name: str) -> None:
    assert numbers(file)[name] == NAMED[file][name]


def test_kinds_of_events() -> None:
    named = numbers("travel.h")
    kinds = {"CROSSED": "cross", "SLIDES": "slide", "LEFT": "leave", "BRANCHED": "branch"}
    assert [named[name] for name in kinds] == list(range(len(_travel.KINDS)))
    assert _travel.KINDS.tolist() == list(kinds.values())
    assert named["STAYED"] == len(kinds)  # of which nothing is noted


def test_there_is_room_for_what_c_writes() -> None:
    engine = numbers("engine.h")
    desk, trial = _arrays.Desk.room(3, 4, 2, 3, 5), _arrays.Trial.room(7, 3, 4)
    # A polynomial is halved as long as it is above DEEPEST, and its half lies in the next row.
    assert len(desk.stack) >= engine["DEEPEST"] + 1
    assert desk.stack.shape[1] == numbers("search.c")["STACK"] == engine["NODES"] + 2
    assert len(desk.rows) == 1 + max(engine[name] for name in ("START", "PLACE", "BEFORE", "ERROR", "OTHER"))
    assert len(trial.stages) == len(trial.powers) == engine["STAGES"]
    assert trial.curves.shape[1] == trial.energies.shape[1] == engine["NODES"]
    assert len(_arrays.Sought.room(1, 2).values) == engine["NODES"]
