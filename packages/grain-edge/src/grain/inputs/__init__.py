"""Inputs of commands: records out of bytes, and commands into which they are filled.

``grain map`` and ``grain submit`` share them. A value reaches the program exactly as it stands in
the input: bytes that are not UTF-8 survive as surrogates, and a line for the shell gets values as
parameters, never as a part of its text. No I/O.

Map:

- ``splitting``: records out of bytes: lines, columns, CSV rows; the names of columns
- ``template``: the template: holes, and what fills them
- ``shell``: the places of values in a line for sh, and what in it evaluates text
- ``warning``: what warns a program before it is ended
- ``errors``: the errors of this package
"""
