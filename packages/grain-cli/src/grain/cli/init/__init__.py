"""`grain init`: look around, and write a configuration.

`survey` runs commands and looks at directories; all else is text in, values or text out.

Map:

- ``command``: the command
- ``survey``: what there is here: commands and their answers, directories, modules
- ``site``: what was found, as values
- ``slurm``: the answers of Slurm's commands
- ``pbs``: those of PBS's
- ``sge``: those of Grid Engine's
- ``document``: the text of a configuration
"""
