#!/usr/bin/env python3
"""Prints the mean of the values of each key.

A reducer reads the mappers' lines, sorted by key, on standard input: a new key
means that the last one is complete.
"""
import itertools
import sys

pairs = (line.rstrip("\n").split("\t") for line in sys.stdin)
for letter, group in itertools.groupby(pairs, key=lambda pair: pair[0]):
    lengths = [int(length) for _, length in group]
    print(f"{letter}\t{sum(lengths) / len(lengths):.3f}")
