"""`grain report`: one page, or a trace, that shows what happened in a mission.

The lines of its event log pass once. `Collector` adds them up; the page is made of its `Report`,
and of nothing else. A trace needs no report: its events are written as the lines come.

The page is plain HTML with pictures in SVG, whose places are in percent of the width; a script of
our own draws the timeline on a canvas, so that it can be zoomed. A plotting library that embeds
itself has one to four megabytes, draws nothing without a script, and prints what was on the screen.

Map:

- ``collecting``: `Collector` and `Report`
- ``timeline/``: amounts over time, and the runs in lanes
- ``critical_path``: the chain of tasks that ended last
- ``sufficient``: the request that would have sufficed
- ``graph``: the graph of functions
- ``verdict``: the sentences on top
- ``figures``: figures as text; ticks of axes; the number of rows
- ``charts``: the geometry of pictures
- ``trace``: a trace for Perfetto
- ``command``: the command `grain report`
- ``watching``: the page of a mission that runs
- ``tables``: the tables of the page
- ``page``: the page; its template, style and script are in templates
"""
