/* The order of what a search finds: pages for users before the reference and pages for developers.
   Sphinx calls `score` with what it has found. Its own numbers put names of the reference first, at
   up to 100 where the title of a page has 16 at most. */
const INTERNALS =
  /^(api\/|architecture|change|contributing|event-log|performance|protocol)/;

var Scorer = {
  score: ([docname, title, anchor, descr, score, filename, kind]) =>
    INTERNALS.test(docname) ? score / 10 : score,
  objNameMatch: 6,
  objPartialMatch: 3,
  objPrio: {0: 5, 1: 0, 2: -5},
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
