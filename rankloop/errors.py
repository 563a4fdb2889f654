"""What a user did wrong, said so that they can mend it."""


class RankloopError(ValueError):
    """Something given from outside is wrong: the message says what, where, and what to do.

    The command line prints the message without a traceback and exits with code 2.
    """


class DataError(RankloopError):
    """A data set, a file of one, or arrays that were to become one, are wrong."""


class ModelFileError(RankloopError):
    """A file that should hold a model is damaged, or holds something else."""
