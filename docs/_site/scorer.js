// Order of search results: guides first, and pages for operators and developers after others.
const LAST = ["architecture", "benchmarks", "decisions/", "how-to/add-a-format", "releasing"];
const PLAIN = ["how-to/index", "how-to/operations", "how-to/scaling"];

var Scorer = {
  score: ([page, , , , score]) => {
    if (page === "questions") return score + 13; // its title has no word of its questions
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

// A word that no page has, as in "which patients are risky", must not hide the pages with the others.
queueMicrotask(() => {
  const findAll = Search.performTermsSearch;
  Search.performTermsSearch = (words, excluded) => {
    const found = findAll(words, excluded);
    if (found.length || words.size < 2) return found;
    const pages = new Map();
    for (const word of words) for (const result of findAll(new Set([word]), excluded)) {
      const [page] = result, before = pages.get(page);
      if (before) before[4] += result[4];
      else pages.set(page, result);
    }
    return [...pages.values()];
  };
});
