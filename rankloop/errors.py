"""The errors that users can correct."""


class RankloopError(ValueError):
    """Invalid input; the message says what is wrong, where, and what to do.

    The command line prints the message without a traceback and exits with code 2.
    """


class DataError(RankloopError):
    """A data set, one of its files, or the arrays for one are invalid."""


class ModelFileError(RankloopError):
    """A model file is damaged or does not contain a model."""
