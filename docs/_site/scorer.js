// Order of search results: guides first, and pages for operators and developers after others.
const LAST = ["architecture", "benchmarks", "decisions/", "how-to/add-a-format", "releasing"];
const PLAIN = ["how-to/index", "how-to/operations", "how-to/scaling"];

var Scorer = {
  score: ([page, , , , score]) => {
    if (LAST.some((start) => page.startsWith(start))) return score - 4;
    const isGuide = page === "choose" || (page.startsWith("how-to/") && !PLAIN.includes(page));
    return isGuide ? score + 4 : score;
  },
  // the defaults of Sphinx
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
