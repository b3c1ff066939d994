# %% [markdown]
# # auto: which method, and does learning together help?
#
# You have data of several related tasks, and do not know which algorithm to take. **A job with the algorithm `auto`**
# compares methods that suit the data on held-out rows, trains a weighted mean of the best on all rows, and says whether
# learning together helps.
#
# The question: how heavy is a penguin, by its bill, its flippers and its sex? The data are the penguins of the Palmer
# archipelago. A task is a species on one island, and we pretend that only 12 of each have been weighed. The other
# penguins are kept apart, to see whether the report tells the truth.

# %%
import numpy as np
from palmerpenguins import load_penguins

from sibling import Client

table = load_penguins().dropna(subset=["body_mass_g"])
table["colony"] = table["species"] + ", " + table["island"]
table = table[
    ["colony", "bill_length_mm", "bill_depth_mm", "flipper_length_mm", "sex", "body_mass_g"]
]
weighed = table.groupby("colony").sample(12, random_state=4)
others = table.drop(weighed.index)
print(others.groupby("colony").size().to_string())

# %% [markdown]
# ## Train
#
# The service runs at the address in `SIBLING_URL`, or on this machine (`sibling serve`). The table is uploaded as it
# is: the sex of some penguins is missing, and is filled in. The job fits about ten methods, from constants over lines to
# Gaussian processes and trees, to all rows and to the rows outside of each of five folds, which takes some seconds.

# %%
client = Client()
dataset = client.upload(weighed, task_column="colony", target_column="body_mass_g", name="penguins")
job = client.train(dataset, "auto", model="penguins")
model = job.wait()
choice = model.report()["choice"]
print(*choice["sentences"], sep="\n\n")

# %% [markdown]
# ## What to look at
#
# **The second sentence first.** It has what to expect on new rows: an error of about 320 g. It is the score of the whole
# choice, made anew without the held-out rows of each split, and its interval is wide, as there are 60 rows.
#
# **Then the verdict.** Learning together probably helps: bills, flippers and sex say the same about weight in every
# colony, more than five colonies without relation would by chance. How much it helps is less sure: the gain is about a
# tenth, but 60 rows leave a wide interval around it.
#
# **The leaderboard last.** It has the error of each method and its weight in the model. Look at how close the methods are,
# not at which is first: the values are of the same few rows, and the best of several is better by chance.

# %%
for row in choice["leaderboard"]:
    name = " ".join((row["algorithm"], row["variant"])).strip()
    print(f"{row['value']:4.0f}  {row['weight']:4.0%}  {row['role']:12}  {name}")

# %% [markdown]
# Methods that learn each colony alone are worse, and constants much worse: the columns do matter, alike in all colonies.
#
# ## Does the report tell the truth?
#
# The other 282 penguins were not uploaded. The model finds the colony of each row in its column. Their error has to be near
# the expected one, and inside its interval:

# %%
squares = (model.predict(others) - others["body_mass_g"]) ** 2
errors = np.sqrt(squares.groupby(others["colony"]).mean())
print(f"RMSE of the other penguins, on average over colonies: {errors.mean():.0f} g")

# %% [markdown]
# ## What was learned
#
# The importance of the columns: how much the prediction changes with each. **Look for columns that matter in one task
# only:** their mark is far from the bar.

# %%
model.plot("importance")

# %% [markdown]
# Predicted against true weights, each by a weighted mean that was learned without that penguin. **Look for a cloud along the
# line,** and for a task that lies on one side of it.

# %%
model.plot("predictions")

# %% [markdown]
# ## Without a service
#
# `Auto` is an estimator of scikit-learn that does the same in your process: `Auto().fit(X, y, tasks=colonies)` has the methods
# of the model, and the report as `report_` ([Estimators](../how-to/python.md#let-it-choose)).
#
# ## When not to use it
#
# - You know which method you want: train it, with `compare` for the verdict. If you have to explain one, set `single=True`.
# - Each task has very few rows (fewer than about 10): every choice is then mostly chance, and the report says so.
# - Rows belong together, such as those of one animal over several years, and you have no column that says so: held-out
#   rows are then not new, and the estimate is too good. Set a group column.
