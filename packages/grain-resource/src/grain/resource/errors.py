"""Errors of the resource algebra."""


class ResourceError(Exception):
    """Base of every error that this package raises for more than a bad argument."""


class Insufficient(ResourceError, ValueError):
    """Not now: the supply could meet the request, but part of it is in use."""


class Infeasible(ResourceError, ValueError):
    """Never: the supply could not meet the request even if all of it were free."""


class UnknownKind(ResourceError, LookupError):
    """Data name a kind of resource for which there is no class here."""


class DuplicateKind(ResourceError, ValueError):
    """Two different classes claim one kind of resource."""
