"""Methods that are written once, as coroutines, for programs with and without asyncio.

The methods of a :class:`sibling.Client` run their coroutine to its end at once: its transport
blocks, so the coroutine is never suspended. Methods of a :class:`sibling.AsyncClient` return it.
"""

import functools
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from http.client import CONFLICT, NOT_FOUND
from types import MethodType
from typing import TYPE_CHECKING, Any, Concatenate, Final, Generic, ParamSpec, overload

from sibling.client.errors import ServiceError
from sibling.client.http import Http

if TYPE_CHECKING:
    from typing_extensions import TypeVar
else:
    from typing import TypeVar as _TypeVar

    def TypeVar(name: str, **_: Any) -> Any:  # noqa: N802 - a default is for type checkers
        """Return a type variable."""
        return _TypeVar(name)


class Sync:
    """Mode of :class:`Client`: methods return results."""


class Async:
    """Mode of :class:`AsyncClient`: methods return coroutines."""


#: What to do in place of an index that is a number.
_BY_POSITION: Final = (
    "for items by position, use list(...) or itertools.islice(...) of them, or 'async for' where "
    "methods return coroutines"
)
#: Entry of an item in a list of the service.
Entry = dict[str, Any]

Mode = TypeVar("Mode", default=Sync)
Item = TypeVar("Item", default=Entry)
Self_ = TypeVar("Self_")
Params = ParamSpec("Params")
Result = TypeVar("Result")


class Remote(Generic[Mode]):
    """An object of the service, with the connection that its methods use."""

    def __init__(self, http: Http) -> None:
        self._http = http


class remote_method(Generic[Self_, Params, Result]):  # noqa: N801 - a decorator
    """Decorator of a coroutine function, which becomes a method of either mode."""

    def __init__(
        self, function: Callable[Concatenate[Self_, Params], Coroutine[Any, Any, Result]]
    ) -> None:
        self._function = function
        functools.update_wrapper(self, function)  # type: ignore[arg-type]

    @overload
    def __get__(
        self, instance: None, owner: Any
    ) -> Callable[Concatenate[Self_, Params], Coroutine[Any, Any, Result]]: ...
    @overload
    def __get__(self, instance: Remote[Sync], owner: Any) -> Callable[Params, Result]: ...
    @overload
    def __get__(
        self, instance: Remote[Async], owner: Any
    ) -> Callable[Params, Coroutine[Any, Any, Result]]: ...
    def __get__(self, instance: Any, owner: Any) -> Any:
        """Return the method of an instance; of a class, the coroutine function."""
        if instance is None:
            return self._function

        bound: Callable[Params, Any] = MethodType(self._function, instance)

        @functools.wraps(bound)
        def call(*args: Params.args, **kwargs: Params.kwargs) -> Any:
            return instance._http.run(bound(*args, **kwargs))  # noqa: SLF001

        return call


class Listing(Remote[Mode]):
    """Items of the service, whose pages are fetched as they are iterated.

    Iterate with ``for``, or ``async for`` where methods return coroutines.
    """

    def __init__(self, http: Http, items: Callable[[], AsyncIterator[Entry]]) -> None:
        super().__init__(http)
        self._items = items

    def __iter__(self: "Listing[Sync]") -> Iterator[Entry]:
        if self._http.is_async:
            raise TypeError("the items of an AsyncClient need 'async for'")
        items = self._items()
        while True:
            try:
                item = self._http.run(anext(items))
            except StopAsyncIteration:
                return
            yield item

    def __aiter__(self: "Listing[Async]") -> AsyncIterator[Entry]:
        return self._items()

    @remote_method
    async def __getitem__(self, name: str) -> Any:
        raise TypeError(f"the items have no names, got {name!r}; {_BY_POSITION}")


class Collection(Listing[Mode], Generic[Mode, Item]):
    """A collection such as ``client.models``: iterated, filtered by a call, indexed by name.

    Iterating yields the entries of the service's list, as dictionaries; ``client.models["pupils"]``
    is the model itself, or a coroutine that returns it.
    """

    def __init__(
        self,
        http: Http,
        url: str,
        find: Callable[[str], Coroutine[Any, Any, Item]],
        **query: str,
    ) -> None:
        super().__init__(http, lambda: http.pages(url, **query))
        self._url = url
        self._find = find
        self._has_filters = bool(query)

    def __call__(self, **filters: str | None) -> "Collection[Mode, Item]":
        """Return the items with these properties, such as ``client.jobs(state="running")``."""
        query = {name: value for name, value in filters.items() if value is not None}
        return Collection(self._http, self._url, self._find, **query)

    @remote_method
    async def __getitem__(self, name: str) -> Item:
        if not isinstance(name, str):
            raise TypeError(f"expected a name or an id, got {name!r}; {_BY_POSITION}")
        return await self._find(name)

    def __contains__(self: "Collection[Sync, Item]", wanted: object) -> bool:
        """Return whether there is an item with this name or id, or this listed item."""
        if not isinstance(wanted, str):
            return any(item == wanted for item in self)
        if self._has_filters:
            return any(wanted in (item.get("id"), item.get("name")) for item in self)
        if self._http.is_async:
            raise TypeError(
                "'in' is not supported for an AsyncClient; use await client.models[name] instead"
            )
        try:
            self._http.run(self._find(wanted))
        except ValueError:  # no item can have such a name
            return False
        except ServiceError as error:
            if error.status not in (NOT_FOUND, CONFLICT):
                raise
            return error.status == CONFLICT  # such as a dataset that was rejected
        return True
