"""Pages of collections, with page tokens."""

import base64
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from hashlib import sha256
from typing import Annotated, Final, Generic, TypeVar

from fastapi import Query
from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field

from service.errors.problems import Problem
from service.http.schemas import WireModel
from service.storage.ordered_pages import InvalidCursor, PageRequest, RowPage

MAX_PAGE_SIZE: Final = 200
_TOKEN_CHECK_BYTES: Final = 6
ORDER_HELP: Final = "Property to sort by; with `-` in front, the largest or newest first."
#: A key that is a number which every database can store.
_NUMBER: Final = re.compile(r"[0-9]{1,18}")


def _in_utc(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise ValueError("the time in UTC must be in the years 1 to 9999") from None


Moment = Annotated[AwareDatetime, AfterValidator(_in_utc)]


class PageQuery(WireModel):
    """Query parameters that select a page of a collection."""

    model_config = ConfigDict(extra="forbid", strict=False)

    page_size: int = Field(
        50, ge=1, le=MAX_PAGE_SIZE, description="Maximum number of items on the page."
    )
    page_token: str | None = Field(
        None, max_length=2000, description="The next_page_token of the previous page."
    )

    def after(self) -> str | None:
        """Return the id after which the page begins."""
        return None if self.page_token is None else _read_token(self.page_token)

    def after_number(self) -> int:
        """Return the number after which the page begins, for keys that are numbers from 1."""
        key = self.after()
        if key is None:
            return 0
        if not _NUMBER.fullmatch(key):
            raise _invalid_token(self.page_token)
        return int(key)


class SearchQuery(PageQuery):
    """Query parameters that select a page of the items that contain a text."""

    text: str | None = Field(
        None,
        max_length=200,
        description="Only items whose name or id contains this text, in lower or upper case.",
    )
    since: Moment | None = Field(None, description="Only items created at this time and later.")
    until: Moment | None = Field(None, description="Only items created before this time.")
    total: bool = Field(
        default=False, description="Whether to count the items of all pages, as `total`."
    )

    def wanted(self, order_by: str) -> PageRequest:
        """Return the page that is wanted in an order."""
        return PageRequest(order_by, self.after(), self.page_size, self.total)

    @contextmanager
    def checked(self) -> Iterator[None]:
        """Raise a problem for a token of another order, or of another list."""
        try:
            yield
        except InvalidCursor:
            raise _invalid_token(self.page_token) from None


Paging = Annotated[PageQuery, Query()]
Item = TypeVar("Item")


class Page(BaseModel, Generic[Item]):
    """One page of a collection."""

    items: list[Item] = Field(description="The items of the page.")
    next_page_token: str | None = Field(description="Token of the next page; null on the last.")
    previous_page_token: str | None = Field(
        None,
        description="Token of the page before, of lists that can be sorted; null on the first.",
    )
    total: int | None = Field(
        None, description="Number of items of all pages; null unless it was asked for."
    )


def page(items: Sequence[Item], query: PageQuery, *, key: Callable[[Item], str]) -> Page[Item]:
    """Return a page.

    Parameters
    ----------
    items
        One item more than the page size, if there are more.
    """
    shown = list(items[: query.page_size])
    token = None
    if len(items) > query.page_size:
        token = _write_token(key(shown[-1]))
    return Page(items=shown, next_page_token=token)


def page_of_rows(items: Sequence[Item], rows: RowPage) -> Page[Item]:
    """Return a page of a list that can be sorted, with the items of its rows."""
    following, previous = (
        None if key is None else _write_token(key) for key in (rows.following, rows.previous)
    )
    return Page(
        items=list(items),
        next_page_token=following,
        previous_page_token=previous,
        total=rows.total,
    )


def page_of_all(items: Sequence[Item], query: PageQuery) -> Page[Item]:
    """Return a page of a short collection, of which all items are given in their order."""
    start = query.after_number()
    shown = items[start : start + query.page_size + 1]
    end = str(start + query.page_size)
    return page(shown, query, key=lambda _: end)


def _write_token(key: str) -> str:
    data = key.encode()
    return base64.urlsafe_b64encode(_check_of(data) + data).decode()


def _read_token(token: str) -> str:
    """Return the key in a token.

    Its checksum detects made-up tokens, but anybody can compute it: the key may be any text that a
    database can compare.
    """
    try:
        data = base64.b64decode(token.encode(), altchars=b"-_", validate=True)
        check, key = data[:_TOKEN_CHECK_BYTES], data[_TOKEN_CHECK_BYTES:].decode()
    except ValueError:  # not base64, or not UTF-8
        check, key = b"", ""
    if check != _check_of(key.encode()) or "\0" in key:
        raise _invalid_token(token)
    return key


def _invalid_token(token: str | None) -> Problem:
    detail = f"'{token}' is not a page token; use next_page_token of the previous page"
    entry = {"parameter": "query:page_token", "code": "invalid", "detail": detail}
    return Problem("invalid-page-token", detail, errors=[entry])


def _check_of(key: bytes) -> bytes:
    return sha256(key).digest()[:_TOKEN_CHECK_BYTES]
