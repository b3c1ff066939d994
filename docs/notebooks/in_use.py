# %% [markdown]
# # In use: a year of fifty shops
#
# A model is trained once, and called for a year. **Is it still right, and if not: is it one shop, or all of them?** Here is
# what the owner of fifty shops sees week by week, and what she does.
#
# The stream is made, so that we know what happens. Sales depend on the price and on the hours of sun; every shop has a
# size of its own, and its customers mind prices more or less. In week 20, the till of shop 17 breaks, and reports half of
# its sales. From week 35, people stay at home when the sun shines, in all towns.

# %%
import os
import sqlite3
import time
from pathlib import Path

import altair as alt
import numpy as np
import pandas as pd

from sibling import Client

rng = np.random.default_rng(7)
N = 50
size, slope = rng.normal(100, 15, N), rng.normal(-6, 1, N)


def sales_of(n_rows, week=0):
    """Rows of each shop in a week; week 0 is the past."""
    place = np.repeat(np.arange(N), n_rows)
    price, sun = rng.normal(10, 1, len(place)), rng.normal(6, 2, len(place))
    per_hour = 1.5 if week < 35 else -2
    sales = size[place] + slope[place] * (price - 10) + per_hour * (sun - 6)
    sales += rng.normal(0, 3, len(place))
    is_broken = (place == 16) & (20 <= week <= 26)
    shop = [f"shop {i + 1}" for i in place]
    sales = np.where(is_broken, sales / 2, sales)
    return pd.DataFrame({"shop": shop, "price": price, "sun": sun, "sales": sales})


# %% [markdown]
# ## Train, and start to watch
#
# Twenty rows of each shop are known. A mixed model learns them together: what the shops share, and how each differs.
# `evaluate` gives the error to expect, and the alias `production` is the name by which the model is called.

# %%
client = Client()
dataset = client.upload(sales_of(20), task_column="shop", target_column="sales", name="shops")
model = client.train(dataset, "mixed-model", model="shops", evaluate=True).wait()
model.set_alias("production")
monitor = client.set_monitor("shops@production", days=90)
print(f"version {model.version}, watched as {monitor.info['model']}@{monitor.info['alias']}")

# %% [markdown]
# ## A week
#
# True sales come two weeks late. On Monday they are sent, and the report is read; then, each day to Friday, one row of each shop
# is predicted, with an id by which its true sales are found later. That is all that the owner's program does:

# %%
rows_of, errors, reports = {}, [], {}


def a_week(week):
    """Send the true values of two weeks ago, read the report, and predict the rows of a week."""
    if week > 2:
        known = rows_of[week - 2]
        monitor.feedback(known[["row_id", "sales"]].rename(columns={"sales": "target"}))
    reports[week] = monitor.report()
    rows = sales_of(5, week)
    rows["row_id"] = [f"{week:02}-{i}" for i in range(len(rows))]
    predicted = client.model("shops@production").predict(
        rows.drop(columns=["sales", "row_id"]), row_ids=list(rows.row_id)
    )
    rows_of[week] = rows.assign(error=rows.sales - predicted, week=week)


# %% [markdown]
# The service counts real days, and we do not want to wait for a year. So this tutorial cheats in one place, and only
# here: it sends the rows of a week in one go, gives them the days of the week, and moves what the monitor has stored a week
# into the past, in the database of the service (`SIBLING_DATA_DIR`, with SQLite). Never do this to a service that you use; nothing else in this tutorial is for show.

# %%
DATABASE = Path(os.environ.get("SIBLING_DATA_DIR", "data")) / "sibling.db"
MODEL = "model_id = (SELECT id FROM models WHERE name = 'shops')"
MONITOR = f"monitor_id = (SELECT id FROM monitors WHERE {MODEL})"
TIMES = {
    "monitors.created_at": MODEL,
    "model_versions.created_at": MODEL,
    "monitored_rows.created_at": MONITOR,
    "monitored_targets.created_at": MONITOR,
    "renewals.copied_at": MONITOR,
    "renewals.trial_at": MONITOR,
}


def a_week_passes(week):
    """Wait until the rows of a week are stored, give each its day, and move all times back."""
    of_week = f"FROM monitored_rows WHERE {MONITOR} AND row_id LIKE '{week:02}-%'"
    moved = "strftime('%Y-%m-%d %H:%M:%f000', {}, {} || ' days')"
    with sqlite3.connect(DATABASE, timeout=60) as database:
        while database.execute(f"SELECT count(*) {of_week}").fetchone()[0] < 5 * N:
            time.sleep(0.05)
        day = moved.format("created_at", "(substr(row_id, -1) % 5)")
        database.execute(
            f"UPDATE monitored_rows SET created_at = {day} WHERE row_id IN (SELECT row_id {of_week})"
        )
        for place, whose in TIMES.items():
            table, column = place.split(".")
            database.execute(
                f"UPDATE {table} SET {column} = {moved.format(column, -7)} WHERE {whose}"
            )


# %% [markdown]
# ## What she sees
#
# The year goes by. Only weeks in which the report says something new are printed.

# %%
said = None
for week in range(1, 45):
    a_week(week)
    a_week_passes(week)
    report = reports[week]
    if (report["verdict"], report["changed_tasks"]) != said:
        said = report["verdict"], report["changed_tasks"]
        print(f"week {week:2}: {report['verdict']:10} {report['sentences'][0]}")

# %% [markdown]
# - **Shop 17 is named three weeks after its till broke**, one week after the first true values of that week came. The
#   verdict is `tasks`, and the other shops are as promised: this is a thing to mend in one shop. No data of others would help, and
#   a new model would only learn the wrong sales. She has the till mended in week 27. The alarm stays until the rows of these weeks have
#   left the report.
# - **From week 37 on, it is all of them**, two weeks after the customers have changed: the first true values of that week
#   tell. No shop has to be mended: the world is another, and the model has to be trained again.
#
# In between it says nothing new. All alarms together may be looked at every week: if nothing changes, one model in twenty
# has any false one in a year.
#
# ## Renew
#
# A renewal trains the model again on its own rows and on those whose true values are known. Here it begins at once, as
# there are so many. The new version is a challenger: it predicts the rows that come, too, unseen by callers.
# `max_age_days` leaves out the rows from before the change.

# %%
renewal = client.set_renewal("shops@production", rows=1000, max_age_days=65, promote="hand")


def wait_for(is_so):
    """Wait until something is so."""
    while not is_so():
        time.sleep(0.2)


wait_for(lambda: renewal.refresh()["state"] == "trial")
a_week(45)
wait_for(lambda: monitor.report(version=2)["overall"]["n_rows"] >= 5 * N)
a_week_passes(45)
for week in (46, 47):  # callers still get the answers of version 1
    a_week(week)
    a_week_passes(week)
wait_for(lambda: monitor.report(version=2)["overall"]["n_rows"] >= 3 * 5 * N)
challenger = monitor.report(version=2)["overall"]
print(f"version 2: error {challenger['error']['value']:.1f} on {challenger['n_targets']} rows")
champion = rows_of[45].error
print(f"version 1: error {np.sqrt((champion**2).mean()):.1f} on the same {len(champion)} rows")

# %% [markdown]
# By default, a test promotes the challenger, and may be looked at every day; a clear improvement takes about two and a half weeks of
# days with calls. With `promote="hand"` she decides herself, and says why.

# %%
renewal.promote("Half the error on the rows of week 45.")
for week in range(48, 53):
    a_week(week)
    a_week_passes(week)
print(renewal.info["reason"])

# %% [markdown]
# ## The year in one picture
#
# The error of each week, of shop 17 and of all other shops, by the colour of what the report said. **Look for a line that rises
# alone,** and for both rising together: the first is a matter of a shop, the second one of the model.

# %%
everything = pd.concat(rows_of.values())
everything["of"] = np.where(everything["shop"] == "shop 17", "shop 17", "other shops")
weeks = everything.groupby(["week", "of"])["error"].agg(lambda e: np.sqrt((e**2).mean()))
weeks = weeks.reset_index()
weeks["report"] = weeks.week.map(lambda week: reports[week]["verdict"])
base = alt.Chart(weeks).encode(
    x=alt.X("week:Q", title="Week"),
    y=alt.Y("error:Q", title="Error (RMSE)", scale=alt.Scale(type="log")),
    detail="of:N",
)
points = base.mark_point(filled=True, size=50).encode(
    color=alt.Color("report:N", title="The report"), shape=alt.Shape("of:N", title="Rows")
)
(base.mark_line(color="#bbb") + points).properties(
    width=560,
    height=260,
    title=alt.Title(
        "One shop breaks, then all drift",
        subtitle="Error of each week, and what the report said in it; true values come two weeks late",
    ),
)

# %% [markdown]
# Errors fall in week 48, and are still a little above those of the first weeks: the rows of the first training, of a world that is gone,
# are still among those of version 2. Version 2 begins with a report of its own.
#
# ## Back again
#
# Is the new version worse in something that no number tells? One call puts the old one back.

# %%
renewal.put_back("The regional manager wants to see the old numbers.")
print(f"production is version {client.model('shops@production').version}")

# %% [markdown]
# ## In the browser
#
# The same is on the page of the monitor: **Models**, the model, and **Is it still right?** beside its alias. It begins with the verdict, such as
# "'shop 17' does worse than promised", and shows the errors of the shops beside those promised. There you send a file with true
# values, set the rule of the renewal, promote a challenger, and put the old version back.
# The same shops with the mouse alone, and files to download: [Is the model still right?](watch.md)
#
# The guide has all of it, with commands and HTTP: [Watch a model in use](../how-to/watch-a-model.md).
#
# ## When not to use it
#
# - True values never come: then only columns that move and the model's own expectation are known, and neither is an error.
# - A shop is broken, not the world: mend it first. A model that is renewed on wrong values learns them.
# - Everything changes every week: an alarm comes after the fact. Train at fixed times (`cron`).
