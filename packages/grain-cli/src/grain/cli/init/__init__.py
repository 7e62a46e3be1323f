"""`grain init`: look around, and write a configuration.

`survey` runs commands and looks at directories; all else is text in, values or text out.

Map:

- ``command``: the command
- ``survey``: what there is here: commands and their answers, directories, modules
- ``site``: what was found, as values
- ``slurm``, ``pbs``, ``sge``: the answers of their commands
- ``document``: the text of a configuration
"""
