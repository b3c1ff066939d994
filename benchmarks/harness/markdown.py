"""Tables, claims and notes as Markdown."""

from collections.abc import Iterable, Iterator

from benchmarks.harness.results import Block, Cell, Claim, Note, Table


def block_lines(block: Block) -> Iterator[str]:
    """Yield the lines of a block, with an empty one at the end."""
    if isinstance(block, Table):
        yield from table_lines(block)
        yield ""
    elif isinstance(block, Claim):
        yield f"- {claim_text(block)}"
    elif isinstance(block, Note):
        yield from (block.text, "")
    else:
        yield from ("```text", block.text, "```", "")


def claim_text(claim: Claim) -> str:
    """Return a claim, and whether it was confirmed."""
    return claim.text if claim.is_confirmed else f"**Not confirmed:** {claim.text}"


def table_lines(table: Table) -> Iterator[str]:
    """Yield the lines of a table with its caption; numbers are at the right."""
    if table.caption:
        yield from (table.caption, "")
    yield _row(table.columns)
    is_text = [
        any(isinstance(row[j], str) for row in table.rows) for j in range(len(table.columns))
    ]
    yield _row("---" if text else "---:" for text in is_text)
    for row in table.rows:
        yield _row(cell_text(cell) for cell in row)


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def cell_text(cell: Cell) -> str:
    """Return a cell: numbers with three significant digits, integers in full, a dash for None."""
    if cell is None:
        return "-"
    if isinstance(cell, str):
        return cell
    if cell == 0 or isinstance(cell, int) or abs(cell) >= 1000:
        return f"{cell:,.0f}"
    if abs(cell) < 1e-3:
        return f"{cell:.1e}"
    digits = f"{cell:#.3g}"
    return digits.removesuffix(".")
