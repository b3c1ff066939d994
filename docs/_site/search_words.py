"""Sphinx extension: words for which the search shows one page, or section, first.

The search of Sphinx counts words, so a page with Excel in a heading comes before the one that
explains how to upload a workbook. An index entry with exactly the words of a query comes first.
A page has to contain all words of a query, so those that only make it a question are left out.
"""

from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.search.en import SearchEnglish
from sphinx.util import logging

#: Queries, separated by commas, by page; or by page, # and the id of a section.
SEARCH_WORDS = {
    "questions": (
        "questions, faq, risk, risky, which patients are risky, wrong, why is it wrong, refused, "
        "file refused, my file is refused, boss, boss report"
    ),
    "choose": "which algorithm, which method, choose an algorithm, choose a method",
    "choose#hospitals-with-12-patients-each": "hospitals, hospital, patients",
    "how-to/upload-data": (
        "upload, upload data, upload a file, import data, file formats, "
        "how do i upload an excel file"
    ),
    "how-to/watch-a-model": "monitor, monitoring, drift, feedback, ground truth, production",
    "how-to/upload-data#csv": "csv, upload csv, semicolon, delimiter, separator, decimal comma",
    "how-to/upload-data#parquet-arrow-and-feather": "parquet, upload parquet, arrow, feather",
    "how-to/upload-data#excel": "excel, upload excel, xlsx, spreadsheet",
    "how-to/upload-data#large-files-and-limits-of-size": (
        "large files, large file, upload limit, upload limits, upload size, maximum size, "
        "file too large, body too large, 413, limits"
    ),
    "how-to/weights": (
        "weights, weight, sample weight, sample weights, sample_weight, class weight, "
        "imbalanced classes"
    ),
    "how-to/webhooks": "webhook, webhooks, events, notification, notifications, callback",
    "how-to/judge-sharing": "sharing, transfer, transfer learning, does learning together help",
    "how-to/judge-sharing#read-the-verdict": "verdict, sharing helps, helps, hurts, unclear",
    "how-to/training-time": (
        "training time, duration, how long, how long does training take, remaining time, budget_s, "
        "slow training, how long will training take"
    ),
    "how-to/call-a-model#javascript": "javascript, js, node, fetch, cors",
    "how-to/call-a-model#go": "go, golang",
    "how-to/call-a-model#tritonclient-and-other-clients-of-the-open-inference-protocol": (
        "tritonclient, triton, kserve, open inference protocol"
    ),
    "how-to/intervals": (
        "intervals, prediction intervals, prediction interval, confidence interval, "
        "confidence intervals, probabilities, probability, predict_proba, predict_interval, "
        "predict_set, calibration, uncertainty, conformal prediction"
    ),
    "how-to/importance": "importance, feature importance, importance of columns, coefficients",
    "how-to/add-a-task": (
        "add task, add a task, new task, new patient, new school, new hospital, adapt, "
        "how do i add a new hospital"
    ),
    "how-to/update-a-model": "retrain, new rows, update a model",
    "how-to/update-a-model#rename-a-model": "rename, rename model, rename a model",
    "how-to/failed-jobs": "failed job, job failed, job fails, failed jobs, error, worker lost",
    "how-to/failed-jobs#out-of-memory": "out of memory, out-of-memory, oom, memory, memory_mb",
    "how-to/failed-jobs#time-out": "timeout, time-out, timed out, timed-out, timeout_s",
    "how-to/deploy": "deploy, install, systemd, kubernetes",
    "how-to/deploy#one-machine-in-a-container": "docker, container, image, podman",
    "how-to/deploy#docker-compose-with-postgresql": (
        "docker compose, docker-compose, compose, postgres, postgresql"
    ),
    "how-to/secure": (
        "secure, security, permission, permissions, scopes, restrict access, access, "
        "access control, authentication, authorization, users, login, password"
    ),
    "how-to/secure#create-keys": "api key, api keys, key, keys, create key, create keys, token",
    "how-to/secure#rotate-keys": "rotate key, rotate keys, rotate",
    "how-to/secure#use-https": "https, tls, certificate, reverse proxy",
    "how-to/delete": (
        "delete, delete data, delete dataset, delete model, delete job, remove, erase, gdpr"
    ),
    "how-to/python": "scikit-learn, sklearn, estimator, estimators, pipeline, gridsearchcv, python",
    "how-to/back-up": "backup, backups, back up, restore",
    "how-to/back-up#in-containers": "pg_dump, pg_restore, backup docker compose",
    "how-to/upgrade": "upgrade, update, new version, new release, migrate",
    "reference/cli": "exit code, exit codes, command line, cli",
    "how-to/add-an-algorithm": "custom algorithm, own algorithm, add algorithm, plugin",
}


#: Words of questions, such as "can I use sample weights", which Sphinx would look for in pages.
QUESTION_WORDS = frozenset({"can", "mean", "need", "use", "will"})


class SearchQuestions(SearchEnglish):
    """The search of English pages, which also leaves out the words of questions."""

    stopwords = SearchEnglish.stopwords | QUESTION_WORDS


def setup(app: Any) -> dict[str, Any]:
    """Register the extension."""
    app.add_search_language(SearchQuestions)
    app.connect("doctree-read", add_words)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def add_words(app: Any, page: nodes.document) -> None:
    """Add the index entries of a page."""
    sections = {name: section for section in page.findall(nodes.section) for name in section["ids"]}
    for place, words in SEARCH_WORDS.items():
        name, _, anchor = place.partition("#")
        if name != app.env.docname:
            continue
        if anchor and anchor not in sections:
            logging.getLogger(__name__).warning("%s has no section %r", name, anchor)
            continue
        entries = [("single", word.strip(), anchor, "main", None) for word in words.split(",")]
        page.insert(0, addnodes.index(entries=entries))
