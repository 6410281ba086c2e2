"""What runs in a task: reads records, calls the functions of the job, writes pairs.

Each task imports this file, so it imports little and nothing of the package. Keys and values travel
as JSON: a line is the key, a TAB and the value. The lines of one key arrive together,
because slotwise sorts by the bytes before the TAB.
"""

from __future__ import annotations

import importlib
import itertools
import json
import os
import sys
from types import TracebackType
from typing import Any, BinaryIO, Callable, Iterable, Iterator, NoReturn, Optional

in_task = False  # set by main

_counts: dict[tuple[str, str], int] = {}


def count(group: str, name: str, n: int = 1) -> None:
    """Adds n to a counter of the job. Result.counters has it as GROUP.NAME.

    Counters are sent when a task ends; those of a failed attempt do not count.
    """
    for word in (group, name):
        if "," in word or "\n" in word:
            raise ValueError(f"slotwise.count: {word!r} must have no comma and no line end")
    _counts[group, name] = _counts.get((group, name), 0) + n


def flat(value: Any) -> list[Any]:
    """Returns the elements of a tuple or list, and of those in it; else the value alone."""
    if isinstance(value, (tuple, list)):
        return [element for part in value for element in flat(part)]
    return [value]


def tuples(value: Any) -> Any:
    """Replaces lists by tuples, so that a key that was a tuple is one again."""
    return tuple(tuples(element) for element in value) if isinstance(value, list) else value


def decode(line: bytes) -> tuple[Any, Any]:
    """Returns the pair of a line that encode wrote."""
    key, _, value = line.partition(b"\t")
    return tuples(json.loads(key)), json.loads(value)


def encode(key: Any, value: Any) -> bytes:
    """Returns a pair as a line."""
    return f"{_json(key)}\t{_json(value)}\n".encode()


def _json(value: Any) -> str:
    try:
        # Sorted names, because two dicts that are equal must be one key.
        return json.dumps(value, sort_keys=True, separators=(",", ":"))
    except (TypeError, ValueError) as e:
        raise TypeError(f"{value!r} is no key or value: {e}; yield what json.dumps accepts") from None


def encode_fields(key: Any, value: Any) -> bytes:
    """Returns a pair as a line of fields, for an output format with columns."""
    return ("\t".join(_field(field) for field in flat(key) + flat(value)) + "\n").encode("utf-8", "surrogateescape")


def _field(value: Any) -> str:
    if value is None:
        return r"\N"
    if not isinstance(value, str):
        return _json(value)
    return value.replace("\\", r"\\").replace("\t", r"\t").replace("\n", r"\n").replace("\r", r"\r")


def decode_text(line: bytes) -> str:
    """Returns a line of text. Bytes that are not UTF-8 become half surrogates and survive."""
    return line.decode("utf-8", "surrogateescape")


DECODERS: dict[str, Callable[[bytes], Any]] = {"text": decode_text, "json": json.loads, "pairs": decode}


def _lines(source: BinaryIO) -> Iterator[bytes]:
    return (line[:-1] if line.endswith(b"\n") else line for line in source)


def _pairs_of(function: Callable[..., Any], what: str, *args: Any) -> Iterator[tuple[Any, Any]]:
    returned: Optional[Iterable[Any]] = function(*args)
    if returned is not None and not hasattr(returned, "__iter__"):
        raise TypeError(f"the {what} {_name(function)} returns {returned!r}; it must yield or return pairs (key, value), or return None")
    for pair in returned if returned is not None else ():
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            hint = ""
            if isinstance(returned, dict):
                hint = ", as the items() of a dict"
            elif isinstance(returned, tuple) and len(returned) == 2:
                hint = ": yield a single pair, or return a list with it"
            raise TypeError(f"the {what} {_name(function)} yields {pair!r}; it must yield pairs (key, value){hint}")
        yield pair[0], pair[1]


def _name(function: Callable[..., Any]) -> str:
    return str(getattr(getattr(function, "func", function), "__name__", function))


def run_task(role: str, function: Callable[..., Any], decoder: str, fields: bool) -> None:
    """Runs one task between standard input and standard output.

    role is mapper, combiner or reducer; decoder names the entry of DECODERS for a mapper's
    lines; with fields the pairs are written by encode_fields.
    """
    write = encode_fields if fields else encode
    out = sys.stdout.buffer
    # What the functions print must not be taken for pairs. It goes to the log of the attempt.
    sys.stdout = sys.stderr
    lines = _lines(sys.stdin.buffer)
    given: Any = None  # the argument of the call that fails
    task = os.getpid()
    try:
        if role == "mapper":
            decoded = DECODERS[decoder]
            for line in lines:
                given = line
                for key, value in _pairs_of(function, role, given := decoded(line)):
                    out.write(write(key, value))
        else:
            for raw, group in itertools.groupby(lines, key=lambda line: line.partition(b"\t")[0]):
                given = tuples(json.loads(raw))
                values = (json.loads(line.partition(b"\t")[2]) for line in group)
                for key, value in _pairs_of(function, role, given, values):
                    out.write(write(key, value))
    except Exception as e:
        _fail(role, e, given)
    except SystemExit as e:
        if os.getpid() != task:  # a process that the function has forked
            raise
        _fail(role, e, given, _early(role, "exit or sys.exit"))
    out.flush()
    for (group_name, name), n in _counts.items():
        sys.stderr.write(f"reporter:counter:{group_name},{name},{n}\n")


def _fail(role: str, e: BaseException, given: Any, remedy: str = "") -> NoReturn:
    """Ends the task with the traceback of the user's functions, without the frames of this module around them.

    The last lines of standard error become the job's error message, so what the function was given stands before,
    and a remedy behind.
    """
    import traceback  # here, because a task that succeeds does not need it

    frames: Optional[TracebackType] = e.__traceback__
    while frames and frames.tb_frame.f_code.co_filename == __file__:
        frames = frames.tb_next
    what = "record" if role == "mapper" else "key"
    sys.stderr.write(f"the {role} failed at the {what} {repr(given)[:300]}\n" + "".join(traceback.format_exception(type(e), e, frames)) + (remedy and remedy + "\n"))
    raise _Reported


class _Reported(Exception):
    """The error of a function, after _fail has printed it."""


def main(role: str) -> None:
    """Runs the task of a role in a Python that was started for it. The archive's __main__.py calls it.

    Python's exit status is all by which slotwise recognizes a failed task, so status 0 must mean
    that all of the input was read. The functions cannot end Python with it earlier.
    """
    global in_task
    in_task = True
    task, leave = os.getpid(), os._exit

    def fail(status: int) -> NoReturn:
        # Processes that the functions fork end by os._exit, and with any status.
        if os.getpid() == task and status & 0xFF == 0:
            sys.stderr.write(_early(role, "os._exit") + "\n")
            status = 1
        leave(status)

    setattr(os, "_exit", fail)
    try:
        # A module that the functions are in may exit when it is imported.
        run_task(role, *importlib.import_module("_slotwise_job")._slotwise_roles[role])
    except _Reported:
        sys.exit(1)
    except SystemExit as e:
        if os.getpid() != task:
            raise
        raise RuntimeError(_early(role, "exit or sys.exit")) from e


def _early(role: str, call: str) -> str:
    return (f"the {role}, or a module that it uses, called {call} before the end of the task's input: "
            "return from the function to skip a record, or raise an exception to fail the task")
