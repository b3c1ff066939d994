"""A model whose world has turned round, watched and renewed, and days that pass at once."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import sqlalchemy as sa

from service.storage.database import now
from service.storage.tables import MonitoredRow, MonitoredTarget, RenewalRow
from sibling import Client

MODEL = "renewed"
ALIAS = f"{MODEL}@production"
SHOPS = ("a", "b", "c")
DAY = timedelta(days=1)


def made_rows(seed: int, n: int, slope: float = 2.0, towns=("north", "south")) -> list[dict]:
    """Rows of three shops, whose sales depend on the price and the town."""
    rng = np.random.default_rng(seed)
    rows = []
    for shop in SHOPS:
        for _ in range(n):
            price, town = float(rng.normal()), str(rng.choice(towns))
            sales = slope * price + (town == "north") + 0.1 * float(rng.standard_normal())
            rows.append({"shop": shop, "price": price, "town": town, "sales": sales})
    return rows


@dataclass
class World:
    """A model with the alias production and a monitor."""

    service: Any
    client: Client
    wait_until: Callable[[Callable[[], bool]], None]

    def call(self, prefix: str, rows: list[dict], *, days: int = 0) -> None:
        """Predict rows and send their targets, as if they had come in equal parts on past days."""
        ids = [f"{prefix}-{i}" for i in range(len(rows))]
        model = self.client.model(ALIAS)
        model.predict([{k: v for k, v in row.items() if k != "sales"} for row in rows], row_ids=ids)
        self.client.monitor(ALIAS).feedback(
            [{"row_id": i, "target": row["sales"]} for i, row in zip(ids, rows, strict=True)]
        )
        self.wait_until(lambda: self.count(prefix) == len(rows))
        with self.service.open_database() as database, database.write() as session:
            for table in (MonitoredRow, MonitoredTarget):
                for k in range(days):
                    session.execute(
                        sa.update(table)
                        .where(table.row_id.in_(ids[k::days]))
                        .values(created_at=now() - (k + 2) * DAY)
                    )
            for row in session.scalars(sa.select(RenewalRow).with_for_update()) if days else ():
                row.step += 1  # rows of the past are read again after a step
                if row.trial is not None:
                    row.trial = {**row.trial, "days": []}

    def count(self, prefix: str, version: int | None = None) -> int:
        query = sa.select(sa.func.count()).where(MonitoredRow.row_id.startswith(f"{prefix}-"))
        if version is not None:
            query = query.where(MonitoredRow.version == version)
        with self.service.open_database() as database, database.read() as session:
            return session.scalar(query)

    def move_copy(self, days: float) -> None:
        """Let the copy of rows, and all before it, be so many days ago."""
        moment = now() - days * DAY
        with self.service.open_database() as database, database.write() as session:
            for table in (MonitoredRow, MonitoredTarget):
                session.execute(sa.update(table).values(created_at=moment - DAY))
            row = session.scalars(sa.select(RenewalRow)).one()
            row.copied_at = row.trial_at = moment
            row.step += 1

    def steps(self) -> list[tuple[str, str]]:
        """Return the steps of renewals in the audit log with their reasons, the oldest first."""
        events = [e for e in self.client.audit() if e["operation"].startswith("renewal.")]
        return [(e["operation"].removeprefix("renewal."), e["reason"]) for e in events][::-1]

    def wait_for(self, state: str, step: str | None = None):
        renewal = self.client.renewal(ALIAS)
        self.wait_until(
            lambda: (
                renewal.refresh()["state"] == state
                and (step is None or (self.steps() and self.steps()[-1][0] == step))
            )
        )
        return renewal


@pytest.fixture
def start_world(start_service, wait_until):
    """Start a service with a model of the world as it was."""
    clients = ExitStack()

    def start(**env) -> World:
        service = start_service(**env)
        client = clients.enter_context(Client(service.url))
        table = pa.Table.from_pylist(made_rows(0, 30))
        dataset = client.upload(table, task_column="shop", target_column="sales", name="sales")
        client.train(dataset, "ridge", model=MODEL).wait().set_alias("production")
        client.set_monitor(ALIAS, days=90)
        return World(service, client, wait_until)

    with clients:
        yield start
