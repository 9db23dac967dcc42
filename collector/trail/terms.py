"""What was declared of each row of the counts: looked up once, and remembered until other contracts hold."""

from __future__ import annotations

from collector.model.contract import UNDECLARED, Contract, Contracts
from collector.trail.rows import Rows


class Terms:
    """The contract of each row of one stitcher."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._contracts = Contracts()
        self._found: dict[int, Contract] = {}

    def use(self, contracts: Contracts | None) -> tuple[Contract, ...]:
        """These hold from now on. Gives what they declare."""
        self._contracts = contracts or Contracts()
        self._found = {}
        return self._contracts.declared

    def of(self, row: int) -> Contract:
        """The contract of a row; that of undeclared tasks for a negative one."""
        found = self._found.get(row)
        if found is None:
            if row < 0:
                return UNDECLARED
            task, queue, _ = self._rows.names(row)
            found = self._found[row] = self._contracts.of(task, queue)
        return found
