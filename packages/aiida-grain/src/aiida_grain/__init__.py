"""A scheduler plug-in of AiiDA: a calculation is a job in a queue of Grain.

The plug-in has no process and no connection of its own. It writes command lines, which AiiDA's
transport types in a shell of the computer, and reads what they print. So AiiDA and Grain may be in
different environments, and on different hosts.

Rules:

1. AiiDA takes a job for done that an answer leaves out, and fetches its files at once. So an answer
   is whole, or it is an error, after which AiiDA asks again.
2. A job is submitted once, though a connection may break and AiiDA try again.

Map:

- ``scheduler``: the plug-in: the head of a job script, and the command lines
- ``resources``: what a job asks for
- ``answers``: what the commands print, as AiiDA has it
"""
