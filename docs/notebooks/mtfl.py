# %% [markdown]
# # MTFL: features that all tasks share
#
# **Multi-task feature learning** looks for a few features, combinations of the columns, that serve all tasks. A
# task with few rows then only has to find the weights of these features.
#
# The data are the diabetes patients of scikit-learn. The target is the progression of the disease after a year, and
# a task is a group of patients of one sex and a decade of age. Each has 15 training rows.

# %%
import numpy as np
from sklearn.datasets import load_diabetes

from sibling import MTFL, Ridge

data = load_diabetes(scaled=False)
decades = np.array(["under 40", "40 to 49", "50 to 59", "60 and over"])
age = decades[np.digitize(data.data[:, 0], [40, 50, 60])]
sex = np.where(data.data[:, 1] == 1, "sex 1", "sex 2")
groups = np.char.add(np.char.add(age, ", "), sex)
X, y = np.delete(data.data, 1, axis=1), data.target  # sex is the same for all rows of a task

order = np.random.default_rng(0).permutation(len(y))
train = np.concatenate([order[groups[order] == name][:15] for name in np.unique(groups)])
test = np.setdiff1d(order, train)

# %% [markdown]
# ## Does learning together help?
#
# The baseline is ridge regression, which learns each group alone. The score is R² on the held-out patients.

# %%
model = MTFL().fit(X[train], y[train], tasks=groups[train])
alone = Ridge().fit(X[train], y[train], tasks=groups[train])
for name, one in {"together": model, "alone": alone}.items():
    print(f"{name}: R² {one.score(X[test], y[test], tasks=groups[test]):.3f}")

# %% [markdown]
# One split is an example, not a proof: a job with `compare=True` repeats it and tests the difference.
#
# ## What was learned
#
# The spectrum has the weights of the shared features. **Look for a steep fall:** the tasks then share few features.
# Where all weights are equal, there is nothing to share. Here one feature has nearly all the weight.

# %%
model.plot("spectrum")

# %% [markdown]
# The relations are the cosines between the functions of the tasks. **Look for blocks:** groups of tasks in which the
# same columns matter. Red is similar, blue opposite. Here there are none: all cosines are 1.00, so the square is of
# one colour, as the spectrum suggests. The functions of all groups have one direction, and differ at most in its scale and
# in the intercept. With 15 rows for each task, cross-validation chose a penalty so strong that no second direction
# has much weight: these rows do not show that the groups differ.

# %%
model.plot("relations")

# %% [markdown]
# Predicted against true values of held-out patients. **Look for a cloud along the line;** here large values are
# predicted too low, as in every regularised fit.

# %%
model.plot("predictions", X[test], y[test], tasks=groups[test])

# %% [markdown]
# The objective is what a fit minimises: the errors on the training rows plus `gamma` times a penalty for many
# features. Its value says little, as it grows with the rows. **Look for a curve that has become flat.** The duality gap
# below bounds how far the fit is from the optimum. One loop is the fit, the others are those of cross-validation: each
# value of `gamma` in each fold, of which the picture has the last.

# %%
model.plot("objective")

# %% [markdown]
# ## When not to use it
#
# - Each task has many more rows than columns: ridge regression for each task is as good and simpler.
# - The columns of the tasks differ: MTFL needs the same columns; MTDA does not.
# - Some tasks are unrelated to the others: MTFL shares with all of them. FMTL learns which are related.
