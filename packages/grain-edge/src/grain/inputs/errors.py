"""The errors of inputs and templates; each sentence says what to change."""


class InputsError(ValueError):
    """The base of these errors."""


class TemplateError(InputsError):
    """The command template cannot be filled in."""


class InputError(InputsError):
    """An input cannot be read, or does not fit the template."""
