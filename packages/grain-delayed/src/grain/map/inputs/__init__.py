"""Inputs of ``grain map``: from the command line and files to filled-in commands.

The command line is taken apart into a template and sources. Each source yields bytes, which are
split into records; the records of several sources are combined or linked, and each combination
fills the template once. Only ``sources`` does I/O.

A value must reach the program exactly as it stands in the input: bytes that are not UTF-8 survive
as surrogates, and a line for the shell gets values as parameters, never as a part of its text.

Map:

- ``words``: the command line: a template, and the sources of its inputs
- ``sources``: inputs as streams of records
- ``splitting``: records out of bytes: lines, columns, CSV rows
- ``template``: the template: holes, and what fills them
- ``shell``: the places of values in a line for sh, and what in it evaluates text
- ``requests``: resources as one word, ``Cores=4,Memory=8``, and the number of jobs at a time
"""
