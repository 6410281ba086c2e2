"""Simulations as rows."""

from __future__ import annotations

import csv
import json
import os
import pathlib
import tempfile
from typing import Any, Dict, Mapping, Optional, Sequence, Union

from . import _program
from ._jobs import Path, import_pandas
from ._program import Flag, Progress

Row = Dict[str, Any]


class Simulation:
    """What slotwise sim computed. runs has a row for each policy and seed, jobs one for each of their jobs.

    Names of runs are those of the measures, such as response.mean; docs/simulator.md defines them. Times
    of jobs are seconds in columns that end in _s, and -1 for what did not happen. report is the whole result.
    """

    def __init__(self, report: Mapping[str, Any], jobs: list[Row]) -> None:
        self.report = report
        self.runs = [_flatten(run) for run in report["runs"]]
        self.jobs = jobs

    def __repr__(self) -> str:
        return f"<slotwise.Simulation: {len(self.runs)} runs, {len(self.jobs)} rows of jobs; frame() and frame('runs') have them>"

    def frame(self, rows: str = "jobs") -> Any:
        """Returns the rows of jobs, or of runs, as a pandas.DataFrame."""
        return import_pandas().DataFrame({"jobs": self.jobs, "runs": self.runs}[rows])


class Study:
    """What slotwise study computed. runs has a row for each point of the grid and seed, comparisons one for each pair of policies."""

    def __init__(self, report: Mapping[str, Any], runs: list[Row], comparisons: list[Row]) -> None:
        self.report, self.runs, self.comparisons = report, runs, comparisons

    def __repr__(self) -> str:
        return f"<slotwise.Study: {len(self.runs)} runs, {len(self.comparisons)} comparisons; frame() and frame('comparisons') have them>"

    def frame(self, rows: str = "runs") -> Any:
        """Returns the rows of runs, or of comparisons, as a pandas.DataFrame."""
        return import_pandas().DataFrame({"runs": self.runs, "comparisons": self.comparisons}[rows])


def sim(workload: Union[Path, Mapping[str, Any]], cluster: str, policy: Union[str, Sequence[str]] = "fifo", *,
        out: Optional[Path] = None, progress: Optional[bool] = None, **options: Flag) -> Simulation:
    """Simulates a workload on a virtual cluster under policies.

    workload is a file or FORM:FILE as slotwise sim takes it, or a job mix as a dict. options are flags of
    slotwise sim: seeds=10 is --seeds=10. out keeps the tables, plots and the report in a directory.
    """
    with tempfile.TemporaryDirectory(prefix="slotwise-sim-") as directory:
        at = os.fspath(out) if out is not None else os.path.join(directory, "out")
        command = ["sim", f"--workload={_file(workload, directory, 'mix.yaml')}"]
        # References cost further runs. They are wanted for the report that out keeps.
        references = {} if out is not None else {"references": "none"}
        report = _program.call(command + _program.flags({"cluster": cluster, "policy": policy, "out": at, **references, **options}), Progress(progress))
        return Simulation(report, _table(at, "jobs.csv"))


def study(grid: Union[Path, Mapping[str, Any]], *, out: Optional[Path] = None, progress: Optional[bool] = None, **options: Flag) -> Study:
    """Simulates a grid, which is a study file or its content as a dict. options are flags of slotwise study.

    out keeps the results of runs in a directory, so that a changed study simulates only what is new.
    """
    with tempfile.TemporaryDirectory(prefix="slotwise-study-") as directory:
        at = os.fspath(out) if out is not None else os.path.join(directory, "out")
        report = _program.call(["study", _file(grid, directory, "study.yaml"), *_program.flags({"out": at, **options})], Progress(progress))
        return Study(report, _table(at, "runs.csv"), _table(at, "comparisons.csv"))


def _file(content: Union[Path, Mapping[str, Any]], directory: str, name: str) -> str:
    """Returns the name of a file. A dict is written to one: JSON is YAML."""
    if not isinstance(content, Mapping):
        return os.fspath(content)
    file = pathlib.Path(directory, name)
    file.write_text(json.dumps(content))
    return str(file)


def _table(directory: str, name: str) -> list[Row]:
    with open(os.path.join(directory, name), newline="", encoding="utf-8") as file:
        return [{column: _value(text) for column, text in row.items()} for row in csv.DictReader(file)]


def _value(text: str) -> Any:
    """Returns a field of a table as a number or a truth value if it is one."""
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def _flatten(row: Mapping[str, Any], prefix: str = "") -> Row:
    flat: Row = {}
    for name, value in row.items():
        if isinstance(value, Mapping):
            flat.update(_flatten(value, f"{prefix}{name}."))
        else:
            flat[prefix + name] = value
    return flat
