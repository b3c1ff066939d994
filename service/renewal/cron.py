"""Times in cron form: minute, hour, day of the month, month and day of the week, in UTC."""

from datetime import datetime, timedelta
from typing import Final, NamedTuple

_RANGES: Final = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
_NAMES: Final = ("minute", "hour", "day of the month", "month", "day of the week")
#: The 29th of February comes on each day of the week within 40 years.
_MAX_DAYS: Final = 41 * 366


class Cron(NamedTuple):
    """Sets of minutes, hours, days, months and days of the week, of which Sunday is 0.

    Attributes
    ----------
    either_day
        Whether a day of the month or of the week is enough, as where both are restricted.
    """

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    either_day: bool

    @classmethod
    def parse(cls, text: str) -> "Cron":
        """Return the times of a text such as ``0 3 * * 1``.

        Raises
        ------
        ValueError
            A field is not ``*``, numbers, ranges and steps, or no such time ever comes.
        """
        fields = text.split()
        if len(fields) != len(_RANGES):
            raise ValueError(f"expected five fields, such as '0 3 * * 1', got {len(fields)}")
        sets = [_values(field, i) for i, field in enumerate(fields)]
        weekdays = frozenset(day % 7 for day in sets[4])
        either = not (fields[2].startswith("*") or fields[4].startswith("*"))
        cron = cls(sets[0], sets[1], sets[2], sets[3], weekdays, either)
        cron.after(datetime(2024, 1, 1))  # noqa: DTZ001 - any day
        return cron

    def after(self, moment: datetime) -> datetime:
        """Return the first of the times after a moment."""
        start = moment.replace(second=0, microsecond=0) + timedelta(minutes=1)
        midnight = start.replace(hour=0, minute=0)
        for n in range(_MAX_DAYS):
            day = midnight + timedelta(days=n)
            if self._has_day(day):
                times = (
                    day.replace(hour=hour, minute=minute)
                    for hour in sorted(self.hours)
                    for minute in sorted(self.minutes)
                )
                found = next((time for time in times if time >= start), None)
                if found is not None:
                    return found
        raise ValueError("there is no such day in any month")

    def _has_day(self, day: datetime) -> bool:
        if day.month not in self.months:
            return False
        in_month, in_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return in_month or in_week if self.either_day else in_month and in_week


def _values(field: str, place: int) -> frozenset[int]:
    (low, high), found = _RANGES[place], set[int]()
    for part in field.split(","):
        span, has_step, step = part.partition("/")
        first, has_last, last = span.partition("-")
        numbers = [first] * (first != "*") + [last] * bool(has_last) + [step] * bool(has_step)
        is_valid = all(n.isascii() and n.isdecimal() for n in numbers)
        if not is_valid or (has_last and first == "*") or (has_step and int(step) < 1):
            raise ValueError(f"'{part}' is no {_NAMES[place]}: expected *, 3, 1-5, */15 or a list")
        begin = low if first == "*" else int(first)
        end = int(last) if has_last else high if first == "*" or has_step else begin
        if not low <= begin <= end <= high:
            raise ValueError(f"'{part}' is no {_NAMES[place]}, which is from {low} to {high}")
        found.update(range(begin, end + 1, int(step) if has_step else 1))
    return frozenset(found)
