"""Finds and runs the program slotwise."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from typing import Any, Iterable, Mapping, Optional, Sequence, Union

from . import _worker

Flag = Union[str, int, float, bool, "os.PathLike[str]", Sequence[Union[str, int, float, "os.PathLike[str]"]], None]


class Error(Exception):
    """A job or a question that slotwise refuses; the text says what to change."""


class NotFound(Error):
    """There is no program slotwise."""


class Failed(Error):
    """A job that failed or was killed. report is what slotwise printed about it, as JSON."""

    def __init__(self, text: str, report: Mapping[str, Any]) -> None:
        super().__init__(text)
        self.report = report


def program() -> str:
    """Returns the path of the program: the variable SLOTWISE, else slotwise on the PATH."""
    named = os.environ.get("SLOTWISE")
    found = shutil.which(named or "slotwise")
    if found is None:
        where = f"SLOTWISE={named} is not a program" if named else "there is no program slotwise on the PATH, and the variable SLOTWISE is not set"
        raise NotFound(f"{where}: this package only starts slotwise; install it with "
                       "go install github.com/slotwise/slotwise/cmd/slotwise@latest or from a package, and set SLOTWISE to its path")
    return found


def outside(command: str) -> None:
    """Raises Error inside a task. Without it, a module that starts a job when it is imported would start one in each task."""
    if _worker.in_task:
        raise Error(f"slotwise {command} is called inside a task, by a module that the job's functions are in: put the call below if __name__ == '__main__'")


def flags(options: Mapping[str, Flag]) -> list[str]:
    """Returns options as flags: task_memory="2GiB" is --task-memory=2GiB; a list repeats its flag."""
    made = []
    for name, value in options.items():
        values: Iterable[Any] = value if isinstance(value, (list, tuple)) else [value]
        for v in values:
            if v is not None:
                text = str(v).lower() if isinstance(v, bool) else os.fspath(v) if isinstance(v, os.PathLike) else str(v)
                made.append(f"--{name.replace('_', '-')}={text}")
    return made


def call(command: Sequence[str], progress: Optional["Progress"] = None, form: Sequence[str] = ("-o", "json")) -> dict[str, Any]:
    """Runs a command and returns its result, or {} if form asks for no JSON. An error of the command raises."""
    outside(command[0])
    process = subprocess.Popen([program(), *command, *form], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               start_new_session=True)
    assert process.stdout and process.stderr
    said: list[str] = []
    reader = threading.Thread(target=_read, args=(process.stderr, said, progress), daemon=True)
    reader.start()
    try:
        out = process.stdout.read()
        status = process.wait()
    except BaseException:
        # An interrupt of a notebook reaches only Python. slotwise removes what it has begun.
        process.send_signal(signal.SIGINT)
        process.wait()
        raise
    finally:
        reader.join(timeout=5)
        process.stdout.close()
        process.stderr.close()
        if progress:
            progress.close()
    try:
        report: dict[str, Any] = json.loads(out) if form and out.strip() else {}
    except ValueError:
        raise Error(f"slotwise {command[0]} printed what is not JSON: {out[:200]!r}") from None
    if status == 0:
        return report
    text = str(report.get("error") or "; ".join(said[-3:]) or f"slotwise {command[0]} ended with status {status}")
    if report.get("jobs"):
        # The end of a task's log is one line in JSON. A traceback is read in lines.
        raise Failed(text.replace(" | ", "\n"), report)
    raise Error(text)


def _read(stream: Any, said: list[str], progress: Optional["Progress"]) -> None:
    for raw in stream:
        line = raw.decode("utf-8", "replace").rstrip()
        said.append(line)
        del said[:-20]
        if progress:
            progress.line(line)


class Progress:
    """Shows what a command says on standard error.

    In a notebook the last line is shown and replaced, on a terminal likewise; elsewhere, as in
    a log, nothing is shown unless progress=True, which prints lines.
    """

    def __init__(self, show: Optional[bool]) -> None:
        self.handle: Any = None
        self.shown = 0
        self.terminal = sys.stderr is not None and sys.stderr.isatty()
        self.notebook = False
        if show is not False and "IPython" in sys.modules:
            shell = sys.modules["IPython"].get_ipython()
            self.notebook = shell is not None and hasattr(shell, "kernel")
        self.active = show if show is not None else self.terminal or self.notebook

    def line(self, text: str) -> None:
        """Shows a line."""
        if not self.active:
            return
        if self.notebook:
            from IPython.display import HTML, display  # type: ignore[import-not-found, unused-ignore]
            import html

            data = HTML(f"<pre>{html.escape(text)}</pre>")
            if self.handle is None:
                self.handle = display(data, display_id=True)
            else:
                self.handle.update(data)
        elif self.terminal:
            width = shutil.get_terminal_size().columns - 1
            sys.stderr.write("\r" + text[:width].ljust(self.shown))
            self.shown = len(text[:width])
            sys.stderr.flush()
        else:
            sys.stderr.write(text + "\n")

    def close(self) -> None:
        """Removes the line from a terminal. A notebook keeps the last one."""
        if self.active and self.terminal and not self.notebook and self.shown:
            sys.stderr.write("\r" + " " * self.shown + "\r")
            sys.stderr.flush()
