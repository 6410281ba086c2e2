"""Runs MapReduce jobs of Python functions, and simulations, with the program slotwise.

    import slotwise

    def words(line):
        for word in line.split():
            yield word, 1

    def total(word, counts):
        yield word, sum(counts)

    for word, count in slotwise.run(words, total, input="books", combiner=total):
        print(word, count)

The program is found in the variable SLOTWISE or on the PATH.
"""

from ._jobs import Job, Result, run, submit
from ._program import Error, Failed, NotFound
from ._simulate import Simulation, Study, sim, study
from ._worker import count

__all__ = [
    "Error",
    "Failed",
    "Job",
    "NotFound",
    "Result",
    "Simulation",
    "Study",
    "count",
    "run",
    "sim",
    "study",
    "submit",
]
