"""What a study left behind: a JSON file with its numbers beside its pictures, so that finished work is not done
twice."""

import functools
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import biasfree
from biasfree import files
from biasfree.provenance import environment
from biasfree.studies import Result, Study

FOLDER = "results"


@functools.cache
def _source() -> str:
    """A digest of this package's own source."""
    digest = hashlib.sha256()
    root = Path(biasfree.__file__).parent
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()


@dataclass(frozen=True)
class Request:
    """What was asked of every study: the same request on the same source gives the same outcome."""

    seed: int = 0
    quick: bool = False
    protocol: str = "flow"
    # Taken where the request is made: all processes that serve it must name the same source.
    source: str = field(default_factory=_source)

    @property
    def key(self) -> str:
        """Names the request and the source it was run with."""
        text = json.dumps([self.seed, self.quick, self.protocol, self.source])
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Outcome:
    """A study's result as it is stored and shown.

    Attributes:
        id, title, reference, statement, formula: the study's.
        verdict, measured, expected, rule, why, settings: the result's; expectations in words.
        seconds: wall time, compilation included.
        seed, quick, protocol: the request.
        figures: names of the pictures, without folder; PNG first.
        environment: versions, platform, processor, commit.
        key: of the request.
    """

    id: str
    title: str
    reference: str
    statement: str
    formula: str
    verdict: str
    measured: Mapping[str, float]
    expected: Mapping[str, str]
    rule: str
    why: str
    settings: Mapping[str, Any]
    seconds: float
    seed: int
    quick: bool
    protocol: str
    figures: tuple[str, ...]
    environment: Mapping[str, str]
    key: str

    @classmethod
    def of(cls, study: Study, result: Result, request: Request, seconds: float, figures: tuple[str, ...]) -> "Outcome":
        """Put a result on record."""
        return cls(
            study.id, study.title, study.reference, study.statement, study.formula,
            result.verdict, dict(result.measured), {name: e.text for name, e in result.expected.items()},
            result.rule, result.why, dict(result.settings), seconds,
            request.seed, request.quick, request.protocol, figures, environment(), request.key,
        )  # fmt: skip

    def public(self) -> dict[str, Any]:
        """The fields of ``--json``."""
        chosen = ("id", "reference", "verdict", "measured", "expected", "rule", "seconds", "seed")
        return {name: files.plain(getattr(self, name), str) for name in chosen}

    def save(self, folder: Path) -> None:
        """Write ``results/<id>.json``, whole or not at all."""
        target = folder / FOLDER / f"{self.id}.json"
        target.parent.mkdir(parents=True, exist_ok=True)
        with files.written_whole(target) as draft:
            Path(draft).write_text(
                json.dumps(files.plain(asdict(self), str), ensure_ascii=False, indent=1), encoding="utf-8"
            )


def stored(folder: Path, study: str, key: str) -> Outcome | None:
    """The outcome of this study in a folder, if it was left there by the same request and source and is whole."""
    path = folder / FOLDER / f"{study}.json"
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
        outcome = Outcome(**{**fields, "figures": tuple(fields["figures"])})
    except (OSError, ValueError, TypeError, KeyError):
        return None
    whole = all((folder / "figures" / name).exists() for name in outcome.figures)
    return outcome if outcome.key == key and whole else None


def stored_verdicts(folder: Path | str, studies: Iterable[str]) -> dict[str, str]:
    """What earlier runs left in a folder, in words: study → its verdict and how it was run, or that it was not.

    >>> stored_verdicts("no such folder", ["eq-34"])
    {'eq-34': 'not run here'}
    """
    verdicts = {}
    for study in studies:
        try:
            fields = json.loads((Path(folder) / FOLDER / f"{study}.json").read_text(encoding="utf-8"))
            request = Request(fields["seed"], fields["quick"], fields["protocol"])
            how = [f"seed {fields['seed']}", *(["quick"] if fields["quick"] else [])]
            how += [] if fields["protocol"] == "flow" else [f"protocol {fields['protocol']}"]
            how += [] if fields["key"] == request.key else ["by another version of the source"]
            verdicts[study] = f"{fields['verdict']} ({', '.join(how)})"
        except (OSError, ValueError, KeyError, TypeError):
            verdicts[study] = "not run here"
    return verdicts


def write_json(path: Path | str, outcomes: Sequence[Outcome]) -> None:
    """Write the public fields of all outcomes as a JSON list, whole or not at all."""
    with files.written_whole(files.writable(path, (".json",))) as draft:
        text = json.dumps([outcome.public() for outcome in outcomes], ensure_ascii=False, indent=1)
        Path(draft).write_text(text, encoding="utf-8")
