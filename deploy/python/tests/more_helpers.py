"""A module to which another one refers."""


def split(line):
    return line.split()
