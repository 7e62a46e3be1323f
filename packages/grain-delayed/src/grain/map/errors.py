"""The errors that end ``grain map`` itself, as opposed to a job that failed."""


class MapError(Exception):
    """Base of the errors of this package; the sentence says what to change."""


class RequestError(MapError, ValueError):
    """The text of a request is not a resource."""


class ResultLogError(MapError):
    """The result log is another run's, in use, or no result log at all."""
