"""Published names and orders of arguments that changed: the former ones go on working, with a warning."""

import functools
import warnings
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def renamed(**names: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Let a function take arguments by their former names too: ``@renamed(old="new")``.

    >>> @renamed(scale="init_scale")
    ... def start(init_scale: float) -> float:
    ...     return init_scale
    >>> with warnings.catch_warnings(record=True) as said:
    ...     warnings.simplefilter("always")
    ...     start(scale=0.1)
    0.1
    >>> print(said[0].message)
    start: the argument scale is now called init_scale.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            for old in names.keys() & kwargs.keys():
                new = names[old]
                if new in kwargs:
                    raise TypeError(f"{function.__qualname__} got {new} twice, once by its former name {old}.")
                _warn(f"{function.__qualname__}: the argument {old} is now called {new}.")
                kwargs[new] = kwargs.pop(old)
            return function(*args, **kwargs)

        return call

    return decorate


def times_first(name: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Let a function of (times, network, dataset, …) be called in its former order, (network, dataset, times, …)."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            if not (args and hasattr(args[0], "weights")):
                return function(*args, **kwargs)
            _warn(f"{function.__qualname__}: {name} comes first now, before network and dataset.")
            given: list[Any] = list(args)
            times = kwargs.pop(name) if name in kwargs else given.pop(2)
            return function(times, *given, **kwargs)  # type: ignore[arg-type]

        return call

    return decorate


def _warn(sentence: str) -> None:
    warnings.warn(sentence, DeprecationWarning, stacklevel=3)
