"""Tables of measurements, as text or for a document."""

import dataclasses
import statistics


def spread(values, digits=2):
    """The median of the values, and their range."""
    median, low, high = statistics.median(values), min(values), max(values)
    return f"{median:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


@dataclasses.dataclass
class Table:
    """A title, and rows of cells under named columns."""

    title: str
    columns: list
    rows: list = dataclasses.field(default_factory=list)
    note: str = ""

    def add(self, label, cells):
        self.rows.append([label, *cells])

    def print(self, markdown):
        print(f"\n{self.title}")
        lines = self.markdown() if markdown else self.text()
        print("\n".join([*lines, *([f"\n{self.note}"] if self.note else [])]), flush=True)

    def markdown(self):
        dashes = ["---"] + ["---:"] * len(self.columns)
        rows = [["", *self.columns], *self.rows]
        lines = ["| " + " | ".join(row) + " |" for row in rows]
        return ["", lines[0], "|" + "|".join(dashes) + "|", *lines[1:]]

    def text(self):
        rows = [["", *self.columns], *self.rows]
        widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
        aligned = lambda row: [row[0].ljust(widths[0])] + [cell.rjust(width) for cell, width in zip(row[1:], widths[1:])]
        return ["  ".join(aligned(row)).rstrip() for row in rows]
