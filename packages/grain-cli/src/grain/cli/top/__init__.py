"""`grain top`: a live view of workers, missions and tasks on a terminal.

`link` asks the scheduler once a second, in a thread of its own, and hands over what it answers.
`tables` makes tables and sentences of an answer, and text of tables: it is pure. `app` and the
screens show that, by the library textual, which no other module imports; `plain` prints it where
there is no terminal that could be drawn on.

Every cell and every line that is drawn goes through `grain.cli.show.clean`, and has no markup:
names come from other processes.

Map:

- ``command``: the command `grain top`
- ``link``: the connection to the scheduler, in a thread
- ``tables/``: the tables of an answer, the verdict on it, and all that as text
- ``plain``: the same as plain text
- ``app``: the application of textual, its main screen and its keys
- ``pane``: a table on the screen
- ``prompts``: help, and questions before something ends
- ``details``: one worker or one task on a screen of its own
- ``log``: the log of a worker and the lines of a task, as they grow
"""
