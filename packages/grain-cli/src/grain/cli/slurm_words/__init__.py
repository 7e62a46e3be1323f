"""Slurm's words: options, values, formats, states. No I/O.

Map:

- ``grammar``: command lines as getopt_long(3) reads them
- ``options``: the options of ``sbatch`` and ``srun``, also in lines ``#SBATCH`` of a script
- ``values``: times, memory, dependencies and other values as users write them
- ``submission``: the words of ``sbatch`` become what a submission asks for
- ``formats``: formats of letters and names over tables of fields
- ``listed``: the fields of ``squeue``
- ``accounts``: the fields of ``sacct``, and ``seff``
- ``steps``: a step of ``srun``
- ``records``: records as ``scontrol`` shows them
- ``facts``: a task as formats show it
- ``states``: states and reasons
- ``numbers``: jobs and tasks as commands name them
"""
