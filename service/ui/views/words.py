"""Words of pages: groups by the name of their column, kinds of methods, and scores with their unit.

The API says task, pooled and held out; pages say what readers call it.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from algorithms.evaluation.choice.entries import kind_of
from algorithms.evaluation.scores.metrics import IN_TARGET_UNITS
from algorithms.interface.header import DEFAULT_TASK_COLUMN
from algorithms.registry import ALGORITHMS
from service.ui import formats

#: Names of columns that are a noun; the plural is formed of those that are known to be English.
_NOUN: Final = re.compile(r"[^\W\d_]{3,}")
_ENGLISH: Final = frozenset(
    re.findall(
        r"\w+",
        """
    account agency airline airport animal apartment area article artist asset athlete author bank
    batch battery bird block book borough branch brand building bus business camera campaign car
    cell centre center channel child church city clinic clone club cluster coach cohort college
    colony community company compound condition consumer contract cohort country county course cow
    crop customer day dealer department depot device disease district doctor dog donor driver drug
    employee engine enzyme event experiment factory family farm farmer field firm fish flight floor
    forest fund gene generator genotype group habitat herd home horse hospital hotel hour house
    household individual industry institute institution instrument insurer island item judge kinase
    laboratory lab lake language learner line litter location machine maker manufacturer market
    material mine model molecule month mother motor mouse movie municipality nation
    neighbourhood neighborhood node nurse office operator orchard order organisation organization
    owner panel parent parish participant partner patient person physician pig plant plate player
    plot policy pond port practice practitioner process product project property protein province
    pump pupil rat reactor reader region restaurant river road room route sample school season
    section sector seller sensor server shop site source species speaker stand state station
    store street student study subject supplier surgeon survey task teacher team tenant territory
    test theatre tower town train tree trial truck turbine unit university user variety vehicle
    vendor village vineyard visitor volunteer ward warehouse watershed week well winery woman man
    word worker workshop writer year zone
    """,
    )
)
_IRREGULAR: Final = {
    "child": "children",
    "fish": "fish",
    "man": "men",
    "mouse": "mice",
    "person": "people",
    "species": "species",
    "woman": "women",
}
_ENDINGS: Final = ((r"(?<=[^aeiou])y$", "ies"), (r"(?:(?<=[sxz])|(?<=[cs]h))$", "es"), (r"$", "s"))
#: Words of the API, and those of pages; ``{one}`` and ``{many}`` stand for groups.
_PLAIN: Final = (
    (r"all tasks pooled", "one model for all"),
    (r"tasks together or pooled", "{many} together"),
    (r"\bheld-out rows\b", "rows left out for checking"),
    (r"\bheld out\b", "left out for checking"),
    (r"\bhold(s?) out\b", r"leave\1 out for checking"),
    (r"declare column_kind=.*?:(\w+)(?= to use)", r"call it a \1 on upload"),
    (r"(?<!-)\btasks\b(?!=)", "{many}"),
    (r"(?<!-)\btask\b(?!=)", "{one}"),
    (r"\bTasks\b", "{Many}"),
    (r"\bTask\b", "{One}"),
)
#: Names of users, and those of the API, which stay as they are.
_QUOTED: Final = re.compile(r"""((?<!\w)(?:'.+?'|".+?"|`.+?`)(?!\w))""")
#: Name of a method before how it learns, as sentences of a choice have it.
_METHOD: Final = re.compile(r"[\w-]+(?= \((?:each task|all tasks|tasks together))")
#: Kinds of methods, in the order of pages.
KINDS: Final = ("multi_task", "pooled", "single_task", "trivial")
#: Roles that count as learning together.
_TOGETHER: Final = ("candidate", "multi_task")


@dataclass(frozen=True, slots=True)
class GroupWords:
    """The words for one group and for several."""

    one: str
    many: str

    @classmethod
    def of(cls, column: str | None) -> "GroupWords":
        """Return the name of the column with its plural, or "group" if that is no noun.

        A name that is no known English noun, as of another language, is its own plural.
        """
        if column is None or column == DEFAULT_TASK_COLUMN or not _NOUN.fullmatch(column):
            return cls("group", "groups")
        noun = column.lower()
        if noun not in _ENGLISH:
            is_plural = noun.endswith("s") and cls.of(noun[:-1]).many == noun
            return cls("group", "groups") if is_plural else cls(column, column)
        pattern, ending = next(rule for rule in _ENDINGS if re.search(rule[0], noun))
        return cls(noun, _IRREGULAR.get(noun, re.sub(pattern, ending, noun)))

    def counted(self, n: int) -> str:
        """Return a number of groups."""
        return formats.count(n, self.one, self.many)

    def said(self, text: str) -> str:
        """Return a sentence of the API in the words of pages; what is in quotes stays."""
        parts = _QUOTED.split(text)
        return "".join(part if i % 2 else self._plain(part) for i, part in enumerate(parts))

    def _plain(self, text: str) -> str:
        text = _METHOD.sub(lambda found: _title(found[0]), text)
        for pattern, words in _PLAIN:
            text = re.sub(
                pattern,
                words.format(
                    one=self.one,
                    many=self.many,
                    One=self.one.capitalize(),
                    Many=self.many.capitalize(),
                ),
                text,
            )
        return text

    def kind(self, kind: str) -> str:
        """Return how methods of a kind learn."""
        return {
            "multi_task": "Together",
            "pooled": "One model for all",
            "single_task": f"Each {self.one} alone",
            "trivial": "Averages only",
            "per_task": f"Together or alone, by {self.one}",
        }.get(kind, kind.replace("_", " "))


#: What the ends of the area under a ROC curve mean.
AUC_SCALE: Final = "0.5 by chance, 1 at best"
#: Words where the column of the groups is not known.
PLAIN: Final = GroupWords.of(None)


def capital(text: str) -> str:
    """Return text that begins with a capital letter."""
    return f"{text[:1].upper()}{text[1:]}"


def kind_of_row(method: Mapping[str, Any]) -> str:
    """Return the kind of a method of a comparison or a leaderboard."""
    kind = kind_of(method)
    return "multi_task" if kind in _TOGETHER else kind


def name_of(method: Mapping[str, Any]) -> str:
    """Return the name of a method for readers."""
    return f"{_title(str(method['algorithm']))} {method.get('variant') or ''}".strip()


def _title(algorithm: str) -> str:
    known = ALGORITHMS.get(algorithm)
    return algorithm if known is None else known.title


@dataclass(frozen=True, slots=True)
class ScoreWords:
    """A score of a report in words.

    Parameters
    ----------
    unit
        Name of the target, if the score has its unit; empty otherwise.
    """

    metric: str
    title: str
    unit: str
    larger_is_better: bool
    average: str
    words: GroupWords

    @classmethod
    def of(
        cls, report: Mapping[str, Any], words: GroupWords, *, target: str | None = None
    ) -> "ScoreWords":
        """Return the words of the deciding score of a report.

        Parameters
        ----------
        target
            Name of the target, if the report does not have it.
        """
        unit = report.get("unit") or target or ""
        return cls(
            report["metric"],
            report["title"],
            unit if report["metric"] in IN_TARGET_UNITS else "",
            report["larger_is_better"],
            report["average"],
            words,
        )

    @property
    def name(self) -> str:
        """What it measures, with unit and average."""
        what = {"rmse": "typical error (RMSE)", "error_rate": "share of wrong predictions"}
        return self._named(what)

    @property
    def exact(self) -> str:
        """The same in the terms of statistics."""
        return self._named({"rmse": "root mean squared error (RMSE)", "error_rate": "error rate"})

    def _named(self, names: Mapping[str, str]) -> str:
        unit = f" of {self.unit}" if self.unit else ""
        mean = f"mean over {self.words.many}" if self.average == "tasks" else "over all rows"
        return f"{names.get(self.metric, self.title)}{unit}, {mean}"

    @property
    def short(self) -> str:
        """The name of a column with its values."""
        return {"error_rate": "Wrong predictions"}.get(self.metric, self.title)

    @property
    def plain(self) -> str:
        """What it is to readers who know no scores, within a sentence."""
        what = {"rmse": "error", "error_rate": "share of wrong predictions"}
        return what.get(self.metric, self.title)

    @property
    def better(self) -> str:
        """Which bars are better."""
        if self.metric == "auc":
            return f"longer is better ({AUC_SCALE})"
        return "longer is better" if self.larger_is_better else "shorter is better"

    @property
    def caption(self) -> str:
        """Caption of bars."""
        return f"{capital(self.name)}, on rows left out for checking; {self.better}"

    def texts(self, values: Sequence[float | None]) -> list[str]:
        """Return comparable values with as many digits as mean something."""
        if self.metric != "error_rate":
            return formats.column(values, 3)
        return [formats.NONE if value is None else formats.share(value) for value in values]

    def text(self, value: float | None) -> str:
        """Return one value."""
        return self.texts([value])[0]

    def interval(self, ends: Mapping[str, Any]) -> str:
        """Return an interval; empty if it is unknown."""
        if ends.get("low") is None or ends.get("high") is None:
            return ""
        if self.metric != "error_rate":
            return formats.interval(ends)
        low, high = (f"{100 * ends[end]:.0f}" for end in ("low", "high"))
        return f"{low} to {high} %"
