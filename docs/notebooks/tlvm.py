# %% [markdown]
# # TLVM: a latent space for a task with few rows
#
# **Transfer with Gaussian-process latent variable models**: a source task with many rows helps to find the
# low-dimensional space of a target task with few. The space is curved, unlike that of PCA, and rows with missing values
# can be placed in it.
#
# The digits of scikit-learn are in the order of their writers. The source are digits of the first writers, 20 for each
# of four digits. The target are digits of other writers, 3 for each.

# %%
import numpy as np
from sklearn.datasets import load_digits

from sibling import GPLVM, TLVM

X, y = load_digits(return_X_y=True)
first, others = np.arange(900), np.arange(900, len(y))


def choose(rows, start, stop):
    """Return the positions of some images of each of the digits 0 to 3."""
    return np.concatenate([rows[y[rows] == digit][start:stop] for digit in range(4)])


source, target, test = choose(first, 0, 20), choose(others, 0, 3), choose(others, 3, 40)
rows = {"first writers": X[source], "other writers": X[target]}
digits = {"first writers": y[source].astype(str), "other writers": y[target].astype(str)}

# %% [markdown]
# ## Does the source help?
#
# GPLVM is the baseline: the same model, each task alone. The labels are those of the nearest training row in the latent
# space.

# %%
model, alone = TLVM(L=2).fit(rows, digits), GPLVM(L=2).fit(rows, digits)
for name, one in {"with the source": model, "alone": alone}.items():
    right = one.score(X[test], y[test].astype(str), tasks="other writers")
    error = np.sqrt(np.mean((one.reconstruct(X[test], tasks="other writers") - X[test]) ** 2))
    print(f"{name}: {right:.1%} right, reconstruction error {error:.2f} of 16 grey levels")

# %% [markdown]
# ## What was learned
#
# The labelled rows in the two latent dimensions. **Look for digits that form groups.** Compare distances, not
# positions: a latent space may be rotated or reflected without any change of the model.

# %%
model.plot("scatter")

# %% [markdown]
# The confusion matrix of held-out images of the other writers. **Look off the diagonal:** which digits are confused?

# %%
model.plot("confusion", X[test], y[test].astype(str), tasks="other writers")

# %% [markdown]
# The objective of the last loops of the fit, which is minimised. **Look for curves that have become flat.**

# %%
model.plot("objective")

# %% [markdown]
# ## When not to use it
#
# - The target has enough rows of its own: compare with GPLVM, as above.
# - The relation is linear: PCA is much faster, and simpler to explain.
# - There are many rows: the cost grows with the cube of the number of active rows.
