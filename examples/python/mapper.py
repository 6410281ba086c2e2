#!/usr/bin/env python3
"""Prints, for each word, its first letter and how long it is.

A mapper reads lines of the input on standard input and prints lines of
key, TAB, value.
"""
import sys

words = 0
for line in sys.stdin:
    for word in line.split():
        words += 1
        print(word[0].lower(), len(word), sep="\t")

# A counter of the job, shown with its own when it ends.
print(f"reporter:counter:words,read,{words}", file=sys.stderr)
