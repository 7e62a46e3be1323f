"""Deliberate mistakes in the product, each of which the laws have to find: the test of the tests.

Map:

- ``bugs``: mistakes as methods, and the list of all
- ``slips``: mistakes in one line
- ``lanes``: those about lanes
- ``displays``: those about what is shown and logged
- ``found``: the seeds that find each of them, in `found.json`
"""
