"""The pickler: objects to bytes and back, for `grain.worker.payload`.

1. The C pickler does what it can, and that is nearly all. What can be imported travels by its name.
2. Functions and classes that cannot be imported travel by value: dill pickles them, and bundles
   give the classes an identity (``by_value``). Their bytecode is loaded by an interpreter of the
   version that made it, and refused by any other (``origin``).
3. Where the C pickler fails, dill pickles the whole object.
4. Large buffers travel beside the pickle, and are copied once; ``pickler`` has the format.

Map:

- ``pickler``: the format of a payload, dumping and loading
- ``by_value``: functions and classes that cannot be imported
- ``functions``: functions by value, with the variables that they name
- ``class_objects``: classes by value
- ``origin``: the interpreter that made the bytecode in what travels by value
- ``enums``: enumerations by value
- ``exceptions``: exceptions, whatever arguments their classes take
- ``in_process``: types whose objects belong to one process
- ``files``: files as copies, which are closed
- ``reading``: the file that large payloads are loaded from
- ``blame``: the search for the part of an object that cannot be pickled, or that makes it large
"""
