"""Errors for users: what is wrong, where, and what to do."""


class RankloopError(ValueError):
    """Invalid input; the message says what is wrong, where, and what to do.

    The command line prints the message without a traceback and exits with code 2.
    """


class DataError(RankloopError):
    """A data set, a log or statistics are wrong: a file that holds them, or arrays they are made from."""


class ModelFileError(RankloopError):
    """A file that should hold a model is damaged, or holds something else."""


def one_line(error: object) -> str:
    r"""The message of another library's error: its first line, without the source it quotes below.

    >>> one_line("IO Error: no such file\n\nLINE 1: SELECT …")
    'IO Error: no such file'
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
