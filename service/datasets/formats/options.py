"""Options and limits of the parsers."""

import codecs
import string
import unicodedata
from typing import TYPE_CHECKING, Annotated, ClassVar, Final, Literal, cast, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from algorithms.interface.header import DEFAULT_TASK_COLUMN
from algorithms.wrappers.preparation.columns import ColumnKind
from algorithms.wrappers.preparation.text_values import MISSING_MARKERS
from algorithms.wrappers.preparation.written_dates import DateOrder
from service.datasets.issues import ValidationIssues, reject

if TYPE_CHECKING:  # the child process does not import the settings
    from service.settings import Settings

TargetKind = Literal["auto", "numbers", "classes"]

#: Options that name columns.
COLUMN_OPTIONS: Final = (
    "task_column",
    "target_column",
    "group_column",
    "weight_column",
    "ignore_column",
    "column_kind",
)
#: Declared kinds of dates whose order of day and month cannot be found.
_DATE_ORDERS: Final[dict[str, DateOrder]] = {"date-dmy": "dmy", "date-mdy": "mdy"}
#: Options of few formats, with these.
_FEW_FORMATS: Final = {"sheet": "Excel", "variables": "MATLAB, .npz and safetensors"}
_KINDS = (*get_args(ColumnKind), *_DATE_ORDERS)


class ReadOptions(BaseModel):
    """Options of an upload; column options apply to tables only."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    #: Whether a table is only looked at, with all of its columns as features.
    is_inspection: ClassVar[bool] = False

    task_column: str | None = Field(
        None,
        max_length=200,
        description="Column with the task of each row; default: task.",
    )
    target_column: tuple[str, ...] = Field(
        (),
        max_length=1000,
        description="Target columns. With several and no task column, each target is a task.",
    )
    group_column: str | None = Field(
        None,
        max_length=200,
        description="Column with the group of each row. Rows of one group (such as a patient or a "
        "session) are held out together, across all tasks.",
    )
    weight_column: str | None = Field(
        None,
        max_length=200,
        description="Column with the weight of each row, at least 0: how much the row counts in "
        "fits and metrics of its task. A row of weight 0 does not count.",
    )
    ignore_column: tuple[str, ...] = Field((), max_length=1000, description="Columns to ignore.")
    column_kind: tuple[str, ...] = Field(
        (),
        max_length=1000,
        description="Kinds of columns, each as `NAME:KIND` with number, boolean, category, "
        "date, date-dmy or date-mdy, for dates such as 01/02/2024 with the day or the "
        "month first. Default: found from the values.",
    )
    delimiter: str | None = Field(
        None,
        min_length=1,
        max_length=1,
        description="Delimiter of CSV cells; a space for single spaces if all rows fit, else for "
        "runs of spaces and tabs. Default: found among comma, semicolon, tab, | and space.",
    )
    decimal: Literal[".", ","] | None = Field(
        None, description="Decimal separator of numbers in text, as all of CSV is. Default: found."
    )
    thousands: Literal[".", ",", "'", " ", "none"] | None = Field(
        None,
        description="Thousands separator of numbers in text: a point, a comma, an apostrophe, a "
        "space (of any kind), or none. Default: found.",
    )
    encoding: str | None = Field(
        None,
        max_length=40,
        description="Encoding of CSV, such as latin-1. Default: UTF-8 or UTF-16, if the file is in "
        "one of them, else windows-1252.",
    )
    missing_marker: tuple[Annotated[str, Field(max_length=40)], ...] | None = Field(
        None,
        max_length=50,
        description="Text that marks a missing value, beside empty text, and numbers that do, such "
        "as -999. Default: NA, NaN, null, None, ? and the like.",
    )
    variables: tuple[Annotated[str, Field(max_length=200)], ...] = Field(
        (),
        max_length=100,
        description="Variables of MATLAB files, or arrays of NumPy and safetensors, that are read, "
        "each as `NAME` or `NAME:PART` with X, y, task, tasks, groups, sample_weight or "
        "feature_names. Default: those of known names.",
    )
    sheet: str | None = Field(
        None,
        max_length=200,
        description="Sheet of an Excel workbook. Default: all sheets, each of which is a task if "
        "there are several.",
    )
    target_kind: TargetKind = Field(
        "auto",
        description="Whether targets are numbers or classes. auto: text and booleans are "
        "classes, other values are numbers, with a warning if they look like class codes.",
    )

    def check_no_dialect(self, title: str, *, is_table: bool) -> None:
        """Raise Rejected if an option is set that is for CSV only, or for tables only.

        Parameters
        ----------
        title
            The format that was uploaded.
        is_table
            Whether the format is a table, which may have numbers and dates in text.
        """
        issues = ValidationIssues()
        of_tables = () if is_table else ("decimal", "thousands", "missing_marker")
        for name in ("delimiter", "encoding", *of_tables):
            if getattr(self, name) is not None:
                scope = "tables" if name in of_tables else "CSV"
                detail = f"{name} applies to {scope} only, not to {title}"
                issues.add("unused-option", detail, parameter=f"query:{name}")
        for name in () if is_table else self.date_orders():
            detail = f"a date order of column '{name}' applies to tables only, not to {title}"
            issues.add("unused-option", detail, parameter="query:column_kind")
        issues.check()

    @property
    def markers(self) -> tuple[str, ...]:
        """The texts that are missing values, besides blank ones."""
        return self.missing_marker or MISSING_MARKERS

    def thousands_mark(self) -> str | None:
        """Return the declared thousands separator, an empty text for none; None to find it."""
        return "" if self.thousands == "none" else self.thousands

    def check_own(self, title: str, own: frozenset[str]) -> None:
        """Raise Rejected if an option of other formats is set.

        Parameters
        ----------
        own
            Options of the format that was uploaded, which most formats lack.
        """
        for name, titles in _FEW_FORMATS.items():
            if name not in own and getattr(self, name):
                detail = f"{name} applies to {titles} only, not to {title}"
                reject("unused-option", detail, parameter=f"query:{name}")

    def kinds(self) -> dict[str, ColumnKind]:
        """Return the declared kind of each column that has one."""
        pairs = (entry.rpartition(":") for entry in self.column_kind)
        return {
            name: cast("ColumnKind", "date" if kind in _DATE_ORDERS else kind)
            for name, _, kind in pairs
        }

    def labels(self) -> frozenset[str | None]:
        """Return the columns whose numbers are used as text: of tasks, groups, categories."""
        others = {name for name, kind in self.kinds().items() if kind != "number"}
        classes = self.target_column if self.target_kind == "classes" else ()
        task = self.task_column or DEFAULT_TASK_COLUMN
        return frozenset({task, self.group_column, *self.ignore_column, *classes, *others})

    def date_orders(self) -> dict[str, DateOrder]:
        """Return the declared order of day and month of each column that has one."""
        pairs = (entry.rpartition(":") for entry in self.column_kind)
        return {name: _DATE_ORDERS[kind] for name, _, kind in pairs if kind in _DATE_ORDERS}

    @field_validator("column_kind")
    @classmethod
    def _check_kinds(cls, entries: tuple[str, ...]) -> tuple[str, ...]:
        kind_of: dict[str, str] = {}
        for entry in entries:
            name, _, kind = entry.rpartition(":")
            if not name or kind not in _KINDS:
                kinds = ", ".join(_KINDS)
                raise ValueError(f"{entry[:100]!r} is not NAME:KIND with a kind of {kinds}")
            other = kind_of.setdefault(name, kind)
            if other != kind:
                raise ValueError(
                    f"column '{name[:100]}' has the kinds {other} and {kind}; declare one of them"
                )
        return entries

    @field_validator("delimiter")
    @classmethod
    def _check_delimiter(cls, delimiter: str | None) -> str | None:
        is_mark = delimiter is None or delimiter in "\t " + string.punctuation
        if not is_mark or delimiter in {'"', "."}:
            raise ValueError(f"{delimiter!r} cannot be a delimiter; expected a sign such as ';'")
        return delimiter

    @field_validator("decimal")
    @classmethod
    def _check_decimal(cls, decimal: str | None, info: ValidationInfo) -> str | None:
        if decimal is not None and decimal == info.data.get("delimiter"):
            raise ValueError(
                f"'{decimal}' is both delimiter and decimal; declare different signs, or only one "
                "of them"
            )
        return decimal

    @field_validator("thousands")
    @classmethod
    def _check_thousands(cls, thousands: str | None, info: ValidationInfo) -> str | None:
        if thousands is not None and thousands == info.data.get("decimal"):
            raise ValueError(
                f"'{thousands}' separates both thousands and decimals; declare different signs, or "
                "only one of them"
            )
        return thousands

    @field_validator("encoding")
    @classmethod
    def _check_encoding(cls, encoding: str | None) -> str | None:
        """Return the usual name of an encoding of text."""
        if encoding is None:
            return None
        try:
            "".encode(encoding)  # unlike a look-up, this refuses encodings of bytes
        except LookupError:
            raise ValueError(f"{encoding!r} is not the name of a text encoding") from None
        return codecs.lookup(encoding).name

    @field_validator(*COLUMN_OPTIONS)
    @classmethod
    def _compose(cls, names: str | tuple[str, ...] | None) -> str | tuple[str, ...] | None:
        """Return names in Unicode normal form C, as column names are."""
        if names is None or isinstance(names, str):
            return names and unicodedata.normalize("NFC", names)
        return tuple(unicodedata.normalize("NFC", name) for name in names)


class InspectOptions(ReadOptions):
    """Options of a file that is only looked at; its roles are proposals."""

    is_inspection: ClassVar[bool] = True


#: Up to this decompressed size, any compression ratio is accepted.
_UNLIMITED_RATIO_BYTES: Final = 16 * 1024 * 1024


class Limits(BaseModel):
    """Limits of an upload."""

    model_config = ConfigDict(frozen=True)

    decompressed_bytes: int
    decompression_ratio: float
    tasks: int
    features: int
    name_length: int

    def check_decompressed(self, n_bytes: int, file_bytes: int, *, what: str, remedy: str) -> None:
        """Raise Rejected if a compressed file is too large when decompressed.

        Parameters
        ----------
        what
            Plural subject of the message, such as "the decoded columns".
        remedy
            Advice if the compression ratio is too high.
        """
        if n_bytes > self.decompressed_bytes:
            detail = f"{what} have {n_bytes} bytes, more than the limit of"
            reject("decompression-limit", f"{detail} {self.decompressed_bytes}")
        if n_bytes > max(self.decompression_ratio * file_bytes, _UNLIMITED_RATIO_BYTES):
            detail = f"{what} are {n_bytes / max(file_bytes, 1):.0f} times as large as the file, "
            detail += f"more than {self.decompression_ratio:g} times; {remedy}"
            reject("decompression-limit", detail)

    @classmethod
    def from_settings(cls, settings: "Settings") -> "Limits":
        """Return the limits from the settings."""
        return cls(
            decompressed_bytes=settings.max_decompressed_bytes,
            decompression_ratio=settings.max_decompression_ratio,
            tasks=settings.max_tasks,
            features=settings.max_features,
            name_length=settings.max_name_length,
        )
