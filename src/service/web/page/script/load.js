
let asked = null;
let pending = null;
let shownAt = Date.now();
let askedAt = -Infinity;
// Whether something changed while the page was asked for.
let isOld = false;
let typing = null;

// Takes over what a new page shows.
function swap(page) {
  const now = page.getElementById('main');
  const focused = document.activeElement;
  setAges(page);
  for (const id of ['skip', 'bar', 'main', 'foot']) {
    const [own, next] = [byId(id), page.getElementById(id)];
    if (own && next) morph(own, next);
  }
  shownTitle = page.title;
  shownIcon = page.getElementById('icon').getAttribute('href');
  retitle();
  setClock();
  if (followed !== (now.dataset.watch ?? '')) follow();
  if (main().dataset.asOf) mark('away');
  else if (state === 'away') mark('reconnecting');
  alarm();
  // What moved in the page has lost the focus.
  const target = focused?.id && byId(focused.id);
  if (target && document.activeElement !== target) target.focus({ preventScroll: true });
  filterRows();
  notePlace();
}

async function load() {
  if (pending !== null) clearTimeout(pending);
  pending = null;
  isOld = false;
  askedAt = performance.now();
  if (asked) asked.abort();
  const own = asked = new AbortController();
  try {
    const answer = await fetch(location.pathname + location.search, { signal: own.signal });
    if (answer.status === 429) {
      // There is no room for this answer now. What is shown stays, and is asked for again.
      pending = setTimeout(load, AGAIN_MS * 4);
      return;
    }
    const text = await answer.text();
    const page = new DOMParser().parseFromString(text, 'text/html');
    if (page.getElementById('main') && own === asked) {
      swap(page);
      shownAt = Date.now();
      isAskedFor = false;
    }
  } catch (error) {
    if (error.name !== 'AbortError' && !isStale()) mark('reconnecting');
  } finally {
    if (own === asked) asked = null;
    if (isOld && asked === null) changed();
  }
}

// The first change asks at once; others within the pause, and those while an answer is on its way, ask together.
function changed() {
  if (asked) isOld = true;
  else if (pending === null) pending = setTimeout(load, Math.max(0, askedAt + PAUSE_MS - performance.now()));
}

// Shows another view. A click is a step of the history, and what is typed is none.
function go(url, isTyped = false) {
  if (isTyped) history.replaceState(null, '', url);
  else history.pushState(null, '', url);
  isAskedFor = true;
  return load();
}

// Filters the rows that are here by what is typed; the server has the others.
function filterRows() {
  const typed = byId('q')?.value.toLowerCase();
  if (typed === undefined || !byId('apps')) return;
  for (const row of rowsOf(byId('apps'))) row.hidden = !row.dataset.key.toLowerCase().includes(typed);
}

function formUrl() {
  const given = [...new FormData(byId('filter'))].filter(([, value]) => value);
  return given.length ? `/?${new URLSearchParams(given)}` : '/';
}

function search() {
  clearTimeout(typing);
  filterRows();
  typing = setTimeout(() => go(formUrl(), true), TYPED_MS);
}
