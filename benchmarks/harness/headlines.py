"""The results that the index of the benchmarks has, the most important first."""

from typing import Final

#: Sentences by benchmark. A test compares their numbers with those of the kept results.
HEADLINES: Final = {
    "digits": (
        "Six images of each digit: learned together, subspaces retain 49.7% of the variance of "
        "unseen images, pooled 44.4%, separate 44.0%."
    ),
    "peers": (
        "On 35 tables the automatic choice has the best mean rank, 2.30, the next other package "
        "3.23; its loss is 0.995 of that of the best of them in hindsight."
    ),
    "mtda_speed": (
        "MTDA is 45 to 189 times as fast as in the full feature spaces, with the same result."
    ),
    "mtfl_speed": (
        "On School, MTFL is 149.2 to 248.0 times as fast as the corrected Algorithm 1 of the "
        "paper, and 1.9 to 5.6 times as fast as Poon and Peyré (2021)."
    ),
    "tlvm_vs_gpy": "A GP-LVM of 40 rows reaches the value of GPy's 6.1 to 7.8 times as fast.",
    "rmtpca_vs_pymanopt": (
        "RMT-PCA finds its subspaces 5.9 to 43.2 times as fast as the trust regions of pymanopt, "
        "with 1000 columns 909.9 to 1272.3 times."
    ),
    "mtda_faces": (
        "On faces, the common ratio of MTDA does not help: its error rate is .151 with five images "
        "per person, as that of LDA per task with one choice of parameters for all."
    ),
    "tlvm_few_rows": (
        "With 5 faces of the target, the error of TLVM is 3.28, that of retraining 4.12, and that "
        "of PCA with an up-weighted target 3.21; it is as good on most data, and far cheaper."
    ),
    "fmtl_tables": (
        "FMTL has an AUC of 76.9 on Landmine, each task alone 72.6; with enough rows it does not "
        "help."
    ),
    "mtfl_school": (
        "MTFL explains 2.3 points more of the variance of School than ridge regression per task."
    ),
    "rmtpca_eeg": (
        "RMT-PCA retains more variance of EEG than PCA of each subject in 14 of 16 cells."
    ),
    "verdict_calibration": (
        "Where learning together cannot help, at most .016 of the comparisons say that it does."
    ),
    "automatic_calibration": (
        "The automatic choice finds that learning together helps in 100 % of the related "
        "problems, and in 1.0 % of the unrelated ones."
    ),
    "interval_coverage": "Intervals of 90 % have at least 90.0 % of new rows, as means over tasks.",
    "fit_time": "90% of the expected times of fits are right within a factor of 3.",
    "serving": (
        "A model answers 2,384 calls a second on one connection, 2.16 times as many as MLServer."
    ),
    "csv_upload": (
        "Reading 997 MB of CSV with all checks takes 1.99 times as long as in pandas, and 1,293 MB "
        "of memory instead of 1,966."
    ),
    "queries": "With 100,000 jobs, every list and look-up takes less than 20 ms.",
    "jobs_under_chaos": (
        "Of 2,009 jobs, while 143 processes were killed or frozen, none was lost or doubled."
    ),
    "attacks": "During 1,100 silent connections, a health check takes 1.4 ms.",
}
