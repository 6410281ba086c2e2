"""Tests of the package. They start the program that SLOTWISE names; deploy/python_test.go runs them.

SLOTWISE_MASTER, if set, is the address of a cluster's master, for the tests of submit.
"""

import collections
import csv
import functools
import gzip
import io
import itertools
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import types
import unittest
from unittest import mock

import helpers
import slotwise
from slotwise import _jobs, _program, _ship, _worker

TEXT = "to be or\nnot to be\n"
LEAST = 2


def long_words(line):
    return [(word, 1) for word in line.split() if is_long(word)]


def is_long(word):
    return len(word) > LEAST


def longer(line, least):
    return [(word, 1) for word in line.split() if len(word) > least]


def average(key, values):
    read = list(values)
    yield key, sum(read) / len(read)


def fails(line):
    raise ValueError("the record " + line + " is bad")


def tupled(line):
    return [(("to", 1), 0)]


def divides(key, values):
    yield key, 1 / sum(values)


def script(text, *args, cwd, env=None):
    """Runs a script and returns its output."""
    path = pathlib.Path(cwd, "script.py")
    path.write_text(text)
    done = subprocess.run([sys.executable, str(path), *args], cwd=cwd, env={**os.environ, **(env or {})}, capture_output=True, text=True)
    return done.stdout, done.stderr


class Case(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.dir = directory.name
        self.input = os.path.join(self.dir, "in.txt")
        pathlib.Path(self.input).write_text(TEXT)


class Jobs(Case):
    def test_counts_words(self):
        for combiner in (None, helpers.total):
            result = slotwise.run(helpers.words, helpers.total, input=self.input, combiner=combiner, reduces=2)
            self.assertEqual(dict(result), {"be": 2, "not": 1, "or": 1, "to": 2})
            self.assertEqual(result.counters["words.lines"], 2)
            self.assertEqual(result.counters["map.input_records"], 2)

    def test_temporary_output_goes_with_the_result(self):
        result = slotwise.run(helpers.words, input=self.input)
        self.assertEqual(len(list(result)), 6)
        output = result.output
        del result
        self.assertFalse(os.path.exists(output))

    def test_output_stays(self):
        output = os.path.join(self.dir, "out")
        slotwise.run(helpers.words, helpers.total, input=[self.input, self.input], output=output, output_compress="gzip")
        again = slotwise.Result(output, {})
        self.assertEqual(dict(again)["to"], 4)
        with self.assertRaisesRegex(slotwise.Error, "out"):
            slotwise.run(helpers.words, input=self.input, output=output)

    def test_functions_of_this_file_bring_globals(self):
        self.assertEqual(dict(slotwise.run(long_words, input=self.input)), {"not": 1})

    def test_partial_passes_parameters(self):
        self.assertEqual(dict(slotwise.run(functools.partial(longer, least=2), input=self.input)), {"not": 1})

    def test_next_job_gets_pairs(self):
        def swap(pair):
            yield (pair[1], "n"), pair[0]

        def joined(key, values):
            yield key, sorted(values)

        first = slotwise.run(helpers.words, helpers.total, input=self.input)
        self.assertEqual(list(slotwise.run(swap, joined, input=first)), [((1, "n"), ["not", "or"]), ((2, "n"), ["be", "to"])])

    def test_tables(self):
        path = os.path.join(self.dir, "in.csv")
        pathlib.Path(path).write_text('city,fare\n"a, b",2\nc,4\n"a, b",4\nd,\n')

        def fares(record):
            if record["fare"] is not None:
                yield record["city"], float(record["fare"])

        rows = dict(slotwise.run(fares, average, input=path, format="csv"))
        self.assertEqual(rows, {"a, b": 3.0, "c": 4.0})
        result = slotwise.run(fares, average, input=path, format="csv", output_format="csv", output_columns="city,fare:float", reduces=1)
        text = "".join(part.read_text() for part in sorted(pathlib.Path(result.output).glob("part-*")))
        self.assertEqual(list(csv.reader(io.StringIO(text))), [["city", "fare"], ["a, b", "3"], ["c", "4"]])
        with self.assertRaisesRegex(slotwise.Error, "frame"):
            list(result)

    def test_bytes_that_are_not_utf8_survive(self):
        pathlib.Path(self.input).write_bytes(b"caf\xe9 \xc3\xa9\n")
        self.assertEqual({key.encode("utf-8", "surrogateescape") for key, _ in slotwise.run(helpers.words, input=self.input)}, {b"caf\xe9", b"\xc3\xa9"})

    def test_files(self):
        path = os.path.join(self.dir, "stop words")
        pathlib.Path(path).write_text("be\n")

        def kept(line):
            with open("stop words") as file:
                stop = file.read().split()
            return [(word, 1) for word in line.split() if word not in stop]

        result = slotwise.run(kept, helpers.total, input=self.input, files=[path])
        self.assertEqual(dict(result), {"not": 1, "or": 1, "to": 2})
        with self.assertRaisesRegex(slotwise.Error, "missing"):
            slotwise.run(kept, input=self.input, files=["missing"])

    def test_random_data_as_python_counts(self):
        lines = [" ".join(str((i * j * 7919) % 97) for j in range(1, 9)) for i in range(2000)]
        pathlib.Path(self.input).write_text("\n".join(lines))
        want = collections.Counter(itertools.chain.from_iterable(map(str.split, lines)))
        result = slotwise.run(helpers.words, helpers.total, input=self.input, combiner=helpers.total, split_size="4KiB", reduces=3)
        self.assertEqual(dict(result), want)

    def test_printing_does_not_harm(self):
        def prints(line):
            print("hello")
            yield line, 1

        self.assertEqual(len(list(slotwise.run(prints, input=self.input))), 2)

    def test_failure_shows_the_traceback(self):
        with self.assertRaises(slotwise.Failed) as caught:
            slotwise.run(fails, input=self.input, max_attempts=1)
        text = str(caught.exception)
        self.assertIn("ValueError: the record to be or is bad", text)
        self.assertIn("the mapper failed at the record 'to be or", text)
        self.assertIn("in fails\n", text)
        self.assertNotIn("_worker.py", text)
        self.assertNotIn("runpy", text)
        self.assertEqual(caught.exception.report["state"], "failed")
        with self.assertRaisesRegex(slotwise.Failed, r"the reducer failed at the key \('to', 1\)(.|\n)*ZeroDivisionError"):
            slotwise.run(tupled, divides, input=self.input, max_attempts=1)

    def test_result_in_a_notebook(self):
        self.assertRegex(repr(slotwise.run(helpers.words, helpers.total, input=self.input)), r"^<slotwise\.Result: [1-9]\d* pairs in /.*>$")

    def test_exit_fails_the_task(self):
        def exits(line):
            if line.startswith("not"):
                raise SystemExit(0)
            yield line, 1

        def ends(key, values):
            sys.exit()

        def leaves(line):
            os._exit(0)

        def forks(line):
            import os
            if os.fork() == 0:
                os._exit(0)
            return [(line, os.WEXITSTATUS(os.wait()[1]))]

        for functions, text in (((exits,), "the mapper.* called exit or sys.exit"), ((helpers.words, ends), "the reducer.* called exit or sys.exit"),
                                ((leaves,), "the mapper.* called os._exit")):
            with self.subTest(text), self.assertRaisesRegex(slotwise.Failed, text) as failed:
                slotwise.run(*functions, input=self.input, max_attempts=1)
            self.assertNotIn("_worker.py", str(failed.exception))
        self.assertEqual({n for _, n in slotwise.run(forks, input=self.input)}, {0})

    def test_module_that_exits_fails_the_task(self):
        pathlib.Path(self.dir, "quits.py").write_text("import sys\nif 'slotwise-job.zip' in sys.argv[0]: sys.exit(0)\ndef f(line): return [(line, 1)]\n")
        out, err = script("import slotwise, quits\nprint(list(slotwise.run(quits.f, input='in.txt', max_attempts=1)))\n", cwd=self.dir)
        self.assertIn("called exit or sys.exit", err)

    def test_directories_are_no_patterns(self):
        for name in ("a1", "a[1]", "a*", "a{1,2}", "a?", "a\\1", "a#%201"):
            os.mkdir(os.path.join(self.dir, name))
            with gzip.open(os.path.join(self.dir, name, "part-00000.gz"), "wb") as part:
                part.write(_worker.encode(name, 1))
        for name in os.listdir(self.dir):
            if name.startswith("a"):
                with self.subTest(name):
                    self.assertEqual(list(slotwise.Result(os.path.join(self.dir, name), {})), [(name, 1)])
        self.assertEqual(_jobs._parts_pattern("hdfs://[::1]:8020/a[1]"), r"hdfs://[::1]:8020/a\[1]/part-*")

    def test_pairs_are_demanded(self):
        def no_pair(line):
            yield line

        def no_json(line):
            yield line, {1, 2}

        def one_pair(line):
            return line, 1

        def a_dict(line):
            return {line: 1}

        def a_number(line):
            return 1

        for function, text in ((no_pair, "must yield pairs"), (no_json, "no key or value"), (one_pair, "yield a single pair, or return a list"),
                               (a_dict, r"the items\(\) of a dict"), (a_number, "the mapper a_number returns 1; it must yield or return pairs")):
            with self.assertRaisesRegex(slotwise.Failed, text):
                slotwise.run(function, input=self.input, max_attempts=1)

    def test_misuse(self):
        table = slotwise.Result(self.dir, {}, "csv")
        for text, call in {
            'unknown flag "--reducs"': lambda: slotwise.run(helpers.words, input=self.input, reducs=2),
            "names no file": lambda: slotwise.run(helpers.words, input=[]),
            "nothing-there": lambda: slotwise.run(helpers.words, input=os.path.join(self.dir, "nothing-there")),
            "without a reducer": lambda: slotwise.run(helpers.words, combiner=helpers.total, input=self.input),
            "want csv, json or parquet": lambda: slotwise.run(helpers.words, input=self.input, output_format="xml"),
            "is a table": lambda: slotwise.run(helpers.words, input=table),
            "neither with files": lambda: slotwise.run(helpers.words, input=[table, self.input]),
        }.items():
            with self.subTest(text), self.assertRaisesRegex(slotwise.Error, text):
                call()


class Shipping(Case):
    def test_refusals(self):
        bound = 3
        unshippable = object()

        def closure(line):
            yield line, bound

        class Callable:
            def __call__(self, line):
                return []

            def method(self, line):
                return []

        async def coroutine(line):
            return []

        async def asynchronous(line):
            yield line, 1

        scope = {"__name__": __name__}
        exec("def built(line): return []", scope)
        for text, function in {
            "is a lambda": lambda line: [],
            "the mapper coroutine is an async function": coroutine,
            "the mapper asynchronous is an async function": functools.partial(asynchronous),
            r"is a closure: it uses bound .*functools.partial\(closure, bound": closure,
            "is not a function": Callable(),
            "not a function: ": Callable().method,
            "no source that can be shipped": scope["built"],
            "is a object and cannot be shipped": functools.partial(longer, least=unshippable),
        }.items():
            with self.subTest(text), self.assertRaisesRegex(slotwise.Error, text):
                slotwise.run(function, input=self.input)

    def test_global_that_cannot_be_shipped(self):
        out, err = script("import slotwise, threading\nlock = threading.Lock()\ndef f(line):\n    with lock: return []\nslotwise.run(f, input='in.txt')\n", cwd=self.dir)
        self.assertIn("the variable lock, which f uses, is a lock and cannot be shipped", err)

    def test_script(self):
        out, err = script('''
from __future__ import annotations
import json as j, dataclasses, slotwise
from collections import Counter
from slotwise import count
SIZES = {"small": (1, 2)}
print("once")
@dataclasses.dataclass
class Word:
    text: str
    def size(self) -> Unknown: return len(self.text)
def even(n): return n == 0 or odd(n - 1)
def odd(n): return n > 0 and even(n - 1)
def sizes(line: str):
    count("a", "b", 2)
    for word, n in Counter(line.split()).items():
        yield j.loads("1") + Word(word).size() + SIZES["small"][1], even(n)
print(sorted(slotwise.run(sizes, input="in.txt")))
''', cwd=self.dir)
        self.assertEqual(out, "once\n" + str([(5, False)] * 5 + [(6, False)]) + "\n", err)

    def test_module_without_guard(self):
        pathlib.Path(self.dir, "job.py").write_text("import slotwise\nfrom slotwise import run, Result\ndef f(line) -> 'Result | None': return [(line, 1)]\nresult = slotwise.run(f, input='in.txt', max_attempts=1)\n")
        out, err = script("import job\nprint(len(list(job.result)))\n", cwd=self.dir)
        self.assertIn("slotwise run is called inside a task", err)

    def test_package_with_data(self):
        package = pathlib.Path(self.dir, "mine", "sub")
        package.mkdir(parents=True)
        pathlib.Path(self.dir, "mine", "__init__.py").write_text("")
        (package / "__init__.py").write_text("import importlib.resources\nfrom .. import other\ndef f(line):\n    import late\n    yield importlib.resources.files('mine').joinpath('sub/d.txt').read_text(), late.x + other.x\n")
        (package / "d.txt").write_text("data")
        pathlib.Path(self.dir, "mine", "other.py").write_text("x = 1\n")
        pathlib.Path(self.dir, "late.py").write_text("x = 2\n")
        out, err = script("import slotwise, late\nfrom mine.sub import f\nprint(set(slotwise.run(f, input='in.txt', modules=[late])))\n", cwd=self.dir)
        self.assertEqual(out, "{('data', 3)}\n", err)
        with self.assertRaisesRegex(slotwise.Error, "json has no file of yours"):
            slotwise.run(long_words, input=self.input, modules=[json])

    def test_notebook_cells(self):
        # A notebook's functions have no file, but their source is in linecache, as IPython keeps it.
        out, err = script('''
import linecache, slotwise
cell = "def f(line):\\n    yield line, N\\n"
linecache.cache["<cell 1>"] = (len(cell), None, cell.splitlines(True), "<cell 1>")
N = 7
exec(compile(cell, "<cell 1>", "exec"))
print(sorted(slotwise.run(f, input="in.txt")))
''', cwd=self.dir)
        self.assertEqual(out, "[('not to be', 7), ('to be or', 7)]\n", err)

    def test_functions_with_one_name(self):
        out, err = script('''
import slotwise
def step(line):
    for word in line.split(): yield word, 1
mapper = step
def step(key, values): yield key, sum(values)
combiner = step
def step(key, values): yield key, 100 * sum(values)
reducer = step
print(sorted(slotwise.run(mapper, step, input="in.txt", combiner=combiner)))
def step(n): return n and 1 + step(n - 1)
def lengths(line): yield line, step(len(line))
def depth(line): return [(line, 10 * step(2))]
def ten(mapper=lengths):
    def depth(line): return [(line, 20)]
    return depth
inner = ten()
def both(line): return depth(line) + inner(line)
print(sorted(slotwise.run(lengths, reducer, input="in.txt")))
print(sorted(n for _, n in slotwise.run(both, input="in.txt")))
class Word: pass
old = Word
class Word: pass
def classes(line): return [(line, old())]
slotwise.run(classes, input="in.txt")
''', cwd=self.dir)
        self.assertEqual(out, "[('be', 200), ('not', 100), ('or', 100), ('to', 200)]\n[('not to be', 900), ('to be or', 800)]\n[20, 20, 20, 20]\n", err)
        self.assertIn("the class Word is not what Word names in its module, as after a redefinition: define it", err)

    def test_classes_with_one_name(self):
        out, err = script('''
import slotwise
class Word:
    def n(self): return 1
class Word:
    def n(self): return 2
def f(line): return [(line, Word().n())]
print({n for _, n in slotwise.run(f, input="in.txt")})
''', cwd=self.dir)
        if sys.version_info < (3, 13):
            self.assertIn("there are two classes Word, and this Python cannot tell their sources apart", err)
        else:
            self.assertEqual(out, "{2}\n", err)

    def test_modules_with_one_name_for_two_things(self):
        for module, n in (("one", 1), ("two", 2)):
            pathlib.Path(self.dir, module + ".py").write_text(f"N = {n}\ndef make():\n    def f(*args): return [(N, 1)]\n    return f\n")
        out, err = script("import slotwise, one, two\nslotwise.run(one.make(), two.make(), input='in.txt')\n", cwd=self.dir)
        self.assertIn("different things named N", err)

    def test_names_of_the_archive_are_free(self):
        out, err = script('''
import slotwise, functools as tools
ROLES, functools, _mapper_module = {"to": 1}, "mine", 3
def f(line, least): yield functools, ROLES["to"] + _mapper_module + least
print(set(slotwise.run(tools.partial(f, least=4), input="in.txt")))
''', cwd=self.dir)
        self.assertEqual(out, "{('mine', 8)}\n", err)

    def test_submodules(self):
        package = pathlib.Path(self.dir, "mine", "sub")
        package.mkdir(parents=True)
        (package / "deep.py").write_text("x = 'deep'\n")
        out, err = script('''
import slotwise, urllib.parse, xml.etree.ElementTree, mine.sub.deep, os.path
import xml.etree as trees
def quoted(line):
    yield urllib.parse.quote(line), xml.etree.ElementTree.fromstring("<a>b</a>").text + mine.sub.deep.x + os.path.basename("a/c")
def parsed(line): yield line, trees.ElementTree.fromstring("<a>b</a>").text
print(list(slotwise.run(quoted, input="in.txt")))
print(list(slotwise.run(parsed, input="in.txt")))
''', cwd=self.dir)
        self.assertEqual(out, "[('to%20be%20or', 'bdeepc'), ('not%20to%20be', 'bdeepc')]\n[('to be or', 'b'), ('not to be', 'b')]\n", err)

    def test_cached_functions(self):
        out, err = script('''
import functools, slotwise
STOP = ["be"]
@functools.cache
def stop(): return set(STOP)
@functools.lru_cache(maxsize=2)
def size(word): return len(word)
def words(line):
    return [(word, size(word)) for word in line.split() if word not in stop()]
print(sorted(slotwise.run(words, input="in.txt")))
''', cwd=self.dir)
        self.assertEqual(out, "[('not', 3), ('or', 2), ('to', 2), ('to', 2)]\n", err)

    def test_second_names(self):
        out, err = script('''
import slotwise
def tokenize(line): return line.split()
tok = tokenize
def even(n): return n == 0 or odd_name(n - 1)
def odd(n): return n > 0 and even(n - 1)
odd_name = odd
class Base:
    def n(self): return 1
Parent = Base
class Child(Parent): pass
def words(line):
    for word in tok(line): yield word, (odd(3), Child().n())
print(dict(slotwise.run(words, input="in.txt")))
''', cwd=self.dir)
        self.assertEqual(out, "{'to': [True, 1], 'be': [True, 1], 'or': [True, 1], 'not': [True, 1]}\n", err)

    def test_same_functions_give_the_same_archive(self):
        functions = {"mapper": helpers.words, "reducer": helpers.total}
        self.assertEqual(_ship.ship(functions, "text", False, []), _ship.ship(functions, "text", False, []))


class Lines(unittest.TestCase):
    def test_pairs_come_back(self):
        for key, value in [("a\tb\n", None), ((1, ("x", 2.5)), {"b": [1], "a": "\udce9"}), (True, "é"), ({"b": 1, "a": 2}, 10**30)]:
            line = _worker.encode(key, value)
            self.assertEqual(_worker.decode(line[:-1]), (key, value))
            self.assertEqual(line.count(b"\n"), 1)
            self.assertEqual(line.count(b"\t"), 1)
        self.assertEqual(_worker.encode({"b": 1, "a": 2}, 0), _worker.encode({"a": 2, "b": 1}, 0))

    def test_fields(self):
        self.assertEqual(_worker.encode_fields(("a\tb", 1), [None, [True, "c\\\n"]]), b"a\\tb\t1\t\\N\ttrue\tc\\\\\\n\n")

    def test_counters_are_words(self):
        with self.assertRaisesRegex(ValueError, "no comma"):
            slotwise.count("a,b", "c")


class Program(Case):
    def test_missing(self):
        for env, text in (({"PATH": self.dir}, "no program slotwise on the PATH"), ({"SLOTWISE": "/nowhere/x"}, "SLOTWISE=/nowhere/x is not a program")):
            with mock.patch.dict(os.environ, env):
                if "SLOTWISE" not in env:
                    os.environ.pop("SLOTWISE", None)
                with self.assertRaisesRegex(slotwise.NotFound, text):
                    slotwise.run(helpers.words, input=self.input)

    def test_flags(self):
        made = _program.flags({"task_memory": "2GiB", "param": ["a=1", "b=2"], "overwrite": True, "reduces": None, "input": pathlib.Path("x")})
        self.assertEqual(made, ["--task-memory=2GiB", "--param=a=1", "--param=b=2", "--overwrite=true", "--input=x"])

    def test_interrupt_ends_the_program(self):
        def slow(line):
            import time
            time.sleep(60)

        class Interrupted(_program.Progress):
            pass

        real = subprocess.Popen
        started = []

        def popen(*args, **options):
            process = real(*args, **options)
            started.append(process)
            process.stdout.close()
            process.stdout = mock.Mock()
            process.stdout.read.side_effect = KeyboardInterrupt
            return process

        with mock.patch.object(subprocess, "Popen", popen), self.assertRaises(KeyboardInterrupt):
            slotwise.run(slow, input=self.input)
        self.assertIsNotNone(started[0].returncode)

    def test_progress_in_a_notebook(self):
        shown = []
        handle = types.SimpleNamespace(update=lambda data: shown.append(data))
        display = types.SimpleNamespace(HTML=lambda text: text, display=lambda data, display_id: shown.append(data) or handle)
        shell = types.SimpleNamespace(kernel=object())
        with mock.patch.dict(sys.modules, {"IPython": types.SimpleNamespace(get_ipython=lambda: shell), "IPython.display": display}):
            progress = _program.Progress(None)
            progress.line("map <1> %")
            progress.line("map 2 %")
        self.assertEqual(shown, ["<pre>map &lt;1&gt; %</pre>", "<pre>map 2 %</pre>"])

    def test_no_progress_in_a_log(self):
        with mock.patch.object(sys, "stderr", io.StringIO()) as said:
            _program.Progress(None).line("x")
            _program.Progress(True).line("y")
        self.assertEqual(said.getvalue(), "y\n")


MIX = {"classes": [{"name": "small", "count": 6, "maps": 4, "map-time": {"uniform": ["5s", "9s"]}, "reduces": 1, "reduce-time": "10s"}],
       "order": "shuffled", "arrivals": {"every": "4s"}}


class Simulations(Case):
    def test_sim(self):
        done = slotwise.sim(MIX, "nodes=2,maps=2,reduces=1", ["fifo", "fair"], seeds=2)
        self.assertRegex(repr(done), r"^<slotwise\.Simulation: 4 runs, [1-9]\d* rows of jobs; ")
        self.assertEqual([(run["policy"], run["seed"]) for run in done.runs], [("fifo", 1), ("fifo", 2), ("fair", 1), ("fair", 2)])
        self.assertEqual(len(done.jobs), 24)
        first = [job for job in done.jobs if job["policy"] == "fifo" and job["seed"] == 1]
        self.assertAlmostEqual(sum(job["response_s"] for job in first) / 6, done.runs[0]["response_s.mean"])

    def test_sim_keeps_files(self):
        mix = pathlib.Path(self.dir, "mix.yaml")
        mix.write_text(json.dumps(MIX))
        slotwise.sim(mix, "nodes=2,maps=2,reduces=1", out=os.path.join(self.dir, "result"))
        self.assertTrue(os.path.exists(os.path.join(self.dir, "result", "report.html")))

    def test_study(self):
        mix = pathlib.Path(self.dir, "mix.yaml")
        mix.write_text(json.dumps(MIX))
        done = slotwise.study({"workload": str(mix), "clusters": ["nodes=2,maps=2,reduces=1"], "policies": ["fifo", "fair"], "seeds": 2})
        self.assertEqual({run["policy"] for run in done.runs} & {"fifo", "fair"}, {"fifo", "fair"})
        self.assertTrue(done.comparisons)

    def test_misuse(self):
        with self.assertRaisesRegex(slotwise.Error, "fiffo"):
            slotwise.sim(MIX, "nodes=2,maps=2,reduces=1", "fiffo")


@unittest.skipUnless(os.environ.get("SLOTWISE_MASTER"), "SLOTWISE_MASTER names no cluster")
class Cluster(Case):
    def test_submit(self):
        job = slotwise.submit(helpers.words, helpers.total, input=self.input, output=os.path.join(self.dir, "out"), python=sys.executable)
        result = job.wait()
        self.assertEqual(dict(result), {"be": 2, "not": 1, "or": 1, "to": 2})
        self.assertEqual(result.counters["words.lines"], 2)
        self.assertEqual(job.status()["name"], "words")

    def test_failure(self):
        job = slotwise.submit(fails, input=self.input, output=os.path.join(self.dir, "out"), python=sys.executable, max_attempts=1)
        with self.assertRaisesRegex(slotwise.Failed, "ValueError: the record"):
            job.wait()

    def test_kill(self):
        def slow(line):
            import time
            time.sleep(600)

        job = slotwise.submit(slow, input=self.input, output=os.path.join(self.dir, "out"), python=sys.executable)
        job.kill()
        with self.assertRaisesRegex(slotwise.Failed, "killed"):
            job.wait()


class Frames(Case):
    def setUp(self):
        super().setUp()
        try:
            import pandas
        except ImportError:
            self.pandas = None
        else:
            self.pandas = pandas

    def test_without_pandas(self):
        with mock.patch.dict(sys.modules, {"pandas": None}), self.assertRaisesRegex(slotwise.Error, "pip install pandas"):
            slotwise.Result(self.dir, {}).frame()

    def test_frames(self):
        if self.pandas is None:
            self.skipTest("pandas is not installed")
        frame = slotwise.run(helpers.words, helpers.total, input=self.input).frame(["word", "n"])
        self.assertEqual(sorted(frame.itertuples(index=False, name=None)), [("be", 2), ("not", 1), ("or", 1), ("to", 2)])
        with self.assertRaisesRegex(slotwise.Error, "has 2 fields"):
            slotwise.run(helpers.words, input=self.input).frame(["word"])
        for table in ("csv", "json", "parquet"):
            result = slotwise.run(helpers.words, helpers.total, input=self.input, output_format=table, output_columns="word,n:int", reduces=2)
            self.assertEqual(sorted(result.frame().itertuples(index=False, name=None)), [("be", 2), ("not", 1), ("or", 1), ("to", 2)])
        done = slotwise.sim(MIX, "nodes=2,maps=2,reduces=1")
        self.assertEqual(len(done.frame()), 6)
        self.assertEqual(len(done.frame("runs")), 1)


if __name__ == "__main__":
    unittest.main()
