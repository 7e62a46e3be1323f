"""Jobs of the queue: submit, list, wait for and change them, and the dispatcher that runs them.

Map:

- ``submit``: ``grain submit``
- ``submission``: the words of ``grain submit`` become what a submission asks for
- ``inputs``: the inputs of the tasks of an array: lines, rows of CSV, items of JSON
- ``errors``: the error of a submission
- ``listing``: ``grain jobs``
- ``csv_table``: the tasks of jobs as comma-separated values, with their inputs and outputs
- ``wait``: ``grain wait``
- ``change``: ``grain hold``, ``release`` and ``resubmit``
- ``queue``: ``grain queue``
- ``dispatcher``: the dispatcher, started and stopped
- ``as_job``: the dispatcher as a job of the batch system
- ``client``: the queue for programs that submit many jobs, such as plug-ins of workflow tools
"""
