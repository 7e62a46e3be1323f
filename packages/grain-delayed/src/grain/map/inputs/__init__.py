"""Inputs of ``grain map``: from the command line and files to records.

The command line is taken apart into a template and sources. Each source yields bytes, which are
split into records; the records of several sources are combined or linked. `grain.inputs` splits
bytes, and fills each combination into the template. Only ``sources`` does I/O.

Map:

- ``words``: the command line: a template, and the sources of its inputs
- ``sources``: inputs as streams of records
- ``requests``: resources as one word, ``Cores=4,Memory=8``, and the number of jobs at a time
"""
