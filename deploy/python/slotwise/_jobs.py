"""Jobs of Python functions, on this machine and on a cluster."""

from __future__ import annotations

import functools
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import weakref
from types import ModuleType
from typing import Any, Callable, Dict, Iterator, Mapping, Optional, Sequence, Tuple, Union, cast

from . import _program, _ship, _worker
from ._program import Error, Failed, Flag, Progress

Path = Union[str, "os.PathLike[str]"]
Pair = Tuple[Any, Any]
Mapper = Callable[[Any], Any]
Reducer = Callable[[Any, Iterator[Any]], Any]

_ARCHIVE = "slotwise-job.zip"
_CONNECTION = ("master", "tls_ca", "tls_cert", "tls_key", "token_file", "config")
_POLL_SECONDS = 1.0


class Result:
    """The output of a job that succeeded. Iterating over it yields its pairs, in the order of the part files.

    output is its directory, counters has the job's counters by name, and report is all
    that slotwise printed about the job. A result may be the input of another job, whose mapper
    gets the pairs. Without an output of its own the directory is temporary: it is removed when
    the result is no longer used.
    """

    def __init__(self, output: str, report: Mapping[str, Any], table: Optional[str] = None,
                 temporary: Optional[str] = None) -> None:
        self.output = output
        self.report = report
        self.table = table  # the output format if it has columns
        if temporary:
            weakref.finalize(self, shutil.rmtree, temporary, ignore_errors=True)

    @property
    def counters(self) -> Dict[str, int]:
        """The counters of the job: map.input_records and so on, and those of slotwise.count as GROUP.NAME."""
        if "jobs" in self.report:
            job = self.report["jobs"][-1]
            return {**job["counters"], **job.get("user_counters", {})}
        made: Dict[str, int] = {}
        for kind in ("map", "reduce"):
            values = dict(self.report[f"{kind}_counters"])
            for name, n in values.pop("user").items():
                made[name] = made.get(name, 0) + n
            made.update({f"{kind}.{name}": n for name, n in values.items() if n})
        return made

    def __repr__(self) -> str:
        counters = self.counters
        n = counters.get("reduce.output_records", counters.get("map.output_records", 0))
        return f"<slotwise.Result: {n} {'rows' if self.table else 'pairs'} in {self.output}>"

    def __iter__(self) -> Iterator[Pair]:
        if self.table:
            raise Error(f"an output of the format {self.table} has columns and no pairs: use frame(), or read the files of {self.output}")
        return (_worker.decode(line) for line in self._lines())

    def _parts(self) -> list[pathlib.Path]:
        return sorted(pathlib.Path(self.output).glob("part-*"))

    def _lines(self) -> Iterator[bytes]:
        """Yields the lines of the part files. The program reads what is remote or compressed."""
        if "://" not in self.output and not any(part.suffix for part in self._parts()):
            for part in self._parts():
                with part.open("rb") as file:
                    yield from (line.rstrip(b"\n") for line in file)
            return
        command = [_program.program(), "hadoop", "fs", "-text", _parts_pattern(self.output)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert process.stdout and process.stderr
        try:
            for line in process.stdout:
                yield line.rstrip(b"\n")
            said = process.stderr.read().decode("utf-8", "replace").strip()
            if process.wait() != 0:
                raise Error(f"reading {self.output}: {said}")
        finally:
            process.kill()  # if the caller has stopped reading
            process.wait()
            process.stdout.close()
            process.stderr.close()

    def frame(self, columns: Sequence[str] = ("key", "value")) -> Any:
        """Returns the output as a pandas.DataFrame. It needs pandas.

        Elements of tuples and lists in keys and values are columns of their own. An output of
        csv, json or parquet has its own columns; Parquet needs pyarrow, too.
        """
        pandas = import_pandas()
        if not self.table:
            rows = [_worker.flat(key) + _worker.flat(value) for key, value in self]
            for row in rows:
                if len(row) != len(columns):
                    raise Error(f"frame: the pair {row} has {len(row)} fields, and columns names {len(columns)}")
            return pandas.DataFrame(rows, columns=list(columns))
        if "://" in self.output:
            raise Error(f"frame: {self.output} is remote; read the files of a table with pandas itself")
        read = {"csv": pandas.read_csv, "parquet": pandas.read_parquet, "json": functools.partial(pandas.read_json, lines=True)}[self.table]
        frames = [frame for frame in map(read, self._parts()) if len(frame)]
        return pandas.concat(frames, ignore_index=True) if frames else pandas.DataFrame()


def _parts_pattern(output: str) -> str:
    """Returns the pattern of the part files in a directory, whose own name is no pattern: a[1] must not read the files of a1."""
    scheme, _, rest = (output if "://" in output else "file://" + os.path.abspath(output)).partition("://")
    # The address of a host may have brackets, too, as in hdfs://[::1]:8020/a.
    host, slash, path = rest.partition("/")
    return scheme + "://" + host + slash + re.sub(r"[*?\[{\\]", r"\\\g<0>", path) + "/part-*"


class Job:
    """A job that was submitted to a cluster. id is its name there, such as j12."""

    def __init__(self, id: str, output: str, table: Optional[str], connection: Mapping[str, Flag]) -> None:
        self.id = id
        self._output, self._table, self._connection = output, table, connection

    def status(self) -> Dict[str, Any]:
        """Returns what slotwise job says: state, maps, reduces, counters, forecast and more."""
        return _program.call(["job", self.id, *_program.flags(self._connection)])

    def kill(self) -> None:
        """Kills the job."""
        _program.call(["kill", self.id, *_program.flags(self._connection)], form=())

    def wait(self, progress: Optional[bool] = None) -> Result:
        """Waits for the job's end, and returns its result. A job that did not succeed raises Failed."""
        shown = Progress(progress)
        try:
            while True:
                status = self.status()
                if status["state"] in ("succeeded", "failed", "killed"):
                    break
                shown.line(_progress_line(status))
                time.sleep(_POLL_SECONDS)
        finally:
            shown.close()
        if status["state"] == "succeeded":
            return Result(self._output, status, self._table)
        why = [status["message"] or status["last_error"], status["log_tail"]]
        raise Failed(f"job {self.id} {status['state']}: " + "\n".join(text.replace(" | ", "\n") for text in why if text), status)


def _progress_line(status: Mapping[str, Any]) -> str:
    parts = [f"{status['name']} {status['id']}: {status['state']}"]
    for kind in ("maps", "reduces"):
        if status[kind]["total"]:
            parts.append(f"{kind} {100 * status[kind]['progress']:.0f} %")
    if status["waiting"]:
        parts.append(f"waits for {status['waiting']}")
    return ", ".join(parts)


def run(mapper: Mapper, reducer: Optional[Reducer] = None, *, input: Union[Path, Result, Sequence[Union[Path, Result]]],
        output: Optional[Path] = None, combiner: Optional[Reducer] = None, format: Optional[str] = None,
        output_format: Optional[str] = None, files: Sequence[Path] = (), modules: Sequence[ModuleType] = (),
        python: Optional[str] = None, progress: Optional[bool] = None, **options: Flag) -> Result:
    """Runs a job on this machine and returns its result.

    mapper(record) and reducer(key, values) return or yield pairs (key, value), or return None;
    keys and values are what json.dumps accepts. A record is a line of text; with format (csv, json,
    parquet, avro, sequence) it is a dict by column; of an input that is a Result it is a pair.
    The reducer gets each key once, in the order of the keys' JSON. Without a reducer the mapper's pairs are
    the output. combiner is a reducer that may fold pairs of one mapper early.

    output_format (csv, json, parquet) writes a table: each pair is a row, in which the elements of
    tuples are columns, named by output_columns="word,count:int". files are in the directory of
    each task; modules are shipped beside those that the functions refer to. python starts
    Python in the tasks; the default is this one, and python3 for submit.

    All other options are flags of slotwise run: reduces=4 is --reduces=4, and
    columns="city,fare" is --columns=city,fare. Lambdas, closures and methods raise Error. A job
    that fails raises Failed.
    """
    temporary = None
    if output is None:
        temporary = tempfile.mkdtemp(prefix="slotwise-")
        output = os.path.join(temporary, "output")
    try:
        report = _run(mapper, reducer, combiner, input, output, format, output_format, files, modules, python, progress, options)
    except BaseException:
        if temporary:
            shutil.rmtree(temporary, ignore_errors=True)
        raise
    return Result(_absolute(output), report, _table(output_format), temporary)


def _run(mapper: Mapper, reducer: Optional[Reducer], combiner: Optional[Reducer], input: Any, output: Path, format: Optional[str],
         output_format: Optional[str], files: Sequence[Path], modules: Sequence[ModuleType], python: Optional[str], progress: Optional[bool],
         options: Mapping[str, Flag]) -> Dict[str, Any]:
    """Runs the job in a directory that has the archive and links to the files."""
    with tempfile.TemporaryDirectory(prefix="slotwise-job-") as directory:
        for file in files:
            name = os.path.basename(os.path.abspath(file))
            if not os.path.exists(file):
                raise Error(f"files: there is no file {os.fspath(file)}")
            os.symlink(os.path.abspath(file), os.path.join(directory, name))
        start = f"cd {shlex.quote(directory)} && exec {shlex.quote(python or sys.executable)}"
        job = _arguments(mapper, reducer, combiner, input, output, format, output_format, modules, directory, start, options)
        return _program.call(["run", *job], Progress(progress))


def submit(mapper: Mapper, reducer: Optional[Reducer] = None, *, input: Union[Path, Result, Sequence[Union[Path, Result]]],
           output: Path, combiner: Optional[Reducer] = None, format: Optional[str] = None,
           output_format: Optional[str] = None, files: Sequence[Path] = (), modules: Sequence[ModuleType] = (),
           python: Optional[str] = None, progress: Optional[bool] = None, **options: Flag) -> Job:
    """Submits a job to a cluster, and returns it at once; Job.wait has its result.

    The arguments are those of run, and the flags those of slotwise submit: master="host:7077" names the
    master, else the variable SLOTWISE_MASTER. Inputs and output need names that all
    workers know. Workers need Python 3.10 or later, but not this package.
    """
    with tempfile.TemporaryDirectory(prefix="slotwise-job-") as directory:
        job = _arguments(mapper, reducer, combiner, input, output, format, output_format, modules, directory, "exec " + shlex.quote(python or "python3"), options)
        job += [f"--file={os.path.abspath(file)}" for file in [os.path.join(directory, _ARCHIVE), *files]]
        report = _program.call(["submit", *job], Progress(progress))
    connection = {name: options[name] for name in _CONNECTION if name in options}
    return Job(report["jobs"][-1]["id"], _absolute(output), _table(output_format), connection)


def _arguments(mapper: Mapper, reducer: Optional[Reducer], combiner: Optional[Reducer], input: Any, output: Path, format: Optional[str],
               output_format: Optional[str], modules: Sequence[ModuleType], directory: str, start: str, options: Mapping[str, Flag]) -> list[str]:
    """Writes the archive of the functions below directory, and returns the arguments of the command."""
    _program.outside("run")
    inputs = list(input) if isinstance(input, (list, tuple)) else [input]
    if not inputs:
        raise Error("input: names no file")
    results = [i for i in inputs if isinstance(i, Result)]
    decoder = "text" if format in (None, "auto", "text") else "json"
    if results:
        if len(results) < len(inputs) or format:
            raise Error("input: results of jobs are read as pairs; they go neither with files nor with format")
        if any(result.table for result in results):
            raise Error("input: a result with an output_format is a table: pass its directory, result.output, and its format")
        decoder = "pairs"
    if combiner and not reducer:
        raise Error("combiner: a job without a reducer combines nothing")
    functions: Dict[str, Callable[..., Any]] = {"mapper": mapper}
    if reducer:
        functions["reducer"] = reducer
    if combiner:
        functions["combiner"] = combiner
    table = _table(output_format)
    archive = _ship.ship(functions, decoder, table is not None, modules)
    pathlib.Path(directory, _ARCHIVE).write_bytes(archive)
    made: Dict[str, Flag] = {role: f"{start} {_ARCHIVE} {role}" for role in functions}
    made["input"] = [i.output if isinstance(i, Result) else cast(Path, i) for i in inputs]
    made["output"] = output
    named = mapper.func if isinstance(mapper, functools.partial) else mapper
    made["name"] = getattr(named, "__name__", None)
    if format:
        made["format"] = format if decoder == "text" or "as=" in format else format + ",as=json"
    made["output_format"] = output_format
    return _program.flags({**made, **options})


def _table(output_format: Optional[str]) -> Optional[str]:
    """Returns the name of an output format that has columns; None for pairs."""
    if output_format is None:
        return None
    name = output_format.partition(",")[0]
    if name not in ("csv", "json", "parquet"):
        raise Error(f"output_format={output_format!r}: want csv, json or parquet; without one the output has pairs")
    return name


def _absolute(output: Path) -> str:
    name = os.fspath(output)
    return name if "://" in name else os.path.abspath(name)


def import_pandas() -> Any:
    """Imports pandas, which the package does not depend on."""
    try:
        import pandas  # type: ignore[import-untyped, import-not-found, unused-ignore]
    except ImportError as e:
        raise Error(f"frame() needs pandas (pip install pandas): {e}; without it, iterate over the rows") from None
    return pandas
