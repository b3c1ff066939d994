"""What a benchmark returns (tables, claims and notes) and the runs that are kept as JSON files."""

from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

RESULTS: Final = Path(__file__).parents[1] / "results"
#: Runs of each form that are kept: the newest, and the one before, with which it is compared.
N_KEPT: Final = 2

Cell = float | int | str | None
Form = Literal["full", "quick"]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Plot(_Frozen):
    """Bars of one column for each value of another, by name; those of groups side by side."""

    labels: str
    values: str
    groups: str | None = None
    has_log_scale: bool = False


class Table(_Frozen):
    """A table of measurements.

    Parameters
    ----------
    columns
        Their names, with units.
    rows
        Cells in the order of the columns. The texts of a row identify it in other runs.
    lower_is_better, higher_is_better
        Columns whose numbers are compared with those of the run before.
    """

    kind: Literal["table"] = "table"
    caption: str = ""
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    lower_is_better: tuple[str, ...] = ()
    higher_is_better: tuple[str, ...] = ()
    plot: Plot | None = None


class Claim(_Frozen):
    """A sentence about the measurements, and whether they confirm it."""

    kind: Literal["claim"] = "claim"
    text: str
    is_confirmed: bool


class Note(_Frozen):
    """A paragraph in Markdown."""

    kind: Literal["note"] = "note"
    text: str


class Output(_Frozen):
    """What a script printed."""

    kind: Literal["output"] = "output"
    text: str


Block = Annotated[Table | Claim | Note | Output, Field(discriminator="kind")]


class Machine(_Frozen):
    """The machine of a run, without its name."""

    processor: str
    n_cores: int
    memory_gib: int
    load: float = Field(description="average number of running processes before the run")


class Run(_Frozen):
    """One run of a benchmark.

    Parameters
    ----------
    date
        ISO date; for figures that were measured before runs were kept, what is known.
    commit
        The commit that was measured; None if unknown.
    """

    command: str
    date: str
    commit: str | None = None
    seconds: float | None = None
    machine: Machine | None = None
    versions: dict[str, str] = {}
    blocks: tuple[Block, ...]

    @property
    def tables(self) -> tuple[Table, ...]:
        """All tables."""
        return tuple(block for block in self.blocks if isinstance(block, Table))

    @property
    def claims(self) -> tuple[Claim, ...]:
        """All claims."""
        return tuple(block for block in self.blocks if isinstance(block, Claim))


class Problem(_Frozen):
    """Why the last attempt to run a benchmark has no result."""

    form: Form
    date: str
    reason: str


class Kept(_Frozen):
    """The runs of a benchmark that are kept, newest first."""

    full: tuple[Run, ...] = ()
    quick: tuple[Run, ...] = ()
    problem: Problem | None = None

    def runs(self, form: Form) -> tuple[Run, ...]:
        """Return the runs of a form."""
        return self.full if form == "full" else self.quick

    def with_run(self, form: Form, run: Run) -> "Kept":
        """Return these runs and a new one."""
        runs = (run, *self.runs(form))[:N_KEPT]
        return self.model_copy(update={form: runs, "problem": None})

    @property
    def shown(self) -> tuple[Form, Run] | None:
        """The run on the page: the newest full one, or else the newest quick one."""
        if self.full:
            return "full", self.full[0]
        return ("quick", self.quick[0]) if self.quick else None


def load(name: str) -> Kept:
    """Return the kept runs of a benchmark."""
    path = RESULTS / f"{name}.json"
    return Kept.model_validate_json(path.read_bytes()) if path.exists() else Kept()


def save(name: str, kept: Kept) -> None:
    """Store the runs of a benchmark."""
    RESULTS.mkdir(exist_ok=True)
    text = kept.model_dump_json(indent=1, exclude_none=True)
    (RESULTS / f"{name}.json").write_text(text + "\n", encoding="utf-8")
