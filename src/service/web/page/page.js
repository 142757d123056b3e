// Keeps the status page live: a change on the watch makes it ask for the page again, and only the
// parts that differ are replaced, so that the focus stays.
'use strict';

const WATCH = '/bellwether.v1.ApplicationService/WatchApplications?message=' +
  encodeURIComponent('{"namespace":"-"}');
// The watch sends a bookmark every 4 s, even if nothing changes.
const SILENT_MS = 12000;
const PAUSE_MS = 250;
// Without a change the ages in the page still grow.
const REFRESH_MS = 15000;

let heardAt = Date.now();
let state = 'connecting';
let asked = null;
let pending = null;
let shownAt = Date.now();

function byId(id) { return document.getElementById(id); }

function mark(next) {
  if (state === next) return;
  state = next;
  const clock = new Date(heardAt).toLocaleTimeString();
  const [shape, text, kind] = {
    live: ['●', 'live', 'on'],
    connecting: ['○', 'connecting', 'off'],
    reconnecting: ['◌', 'reconnecting', 'off'],
    stale: ['✖', `stale since ${clock}`, 'stale'],
  }[next];
  byId('live').className = kind;
  byId('live').firstElementChild.textContent = shape;
  byId('live-text').textContent = text;
}

function heard() {
  heardAt = Date.now();
  mark('live');
}

// Replaces what differs, row by row.
function swap(now) {
  const main = byId('main');
  const focused = document.activeElement && document.activeElement.id;
  const typed = byId('q') && document.activeElement === byId('q') ? byId('q').value : null;
  const rows = new Map();
  for (const row of main.querySelectorAll('tr[data-key]')) rows.set(row.dataset.key, row);
  const isFirst = rows.size === 0;
  for (const row of now.querySelectorAll('tr[data-key]')) {
    const before = rows.get(row.dataset.key);
    const message = (one) => one.cells[0].textContent + one.cells[4].textContent;
    if (before && before.innerHTML === row.innerHTML) row.replaceWith(before);
    else if (!isFirst && (!before || message(before) !== message(row))) row.className = 'changed';
  }
  main.replaceChildren(...now.childNodes);
  const target = focused && byId(focused);
  if (target && document.activeElement !== target) target.focus({ preventScroll: true });
  if (typed !== null && byId('q')) byId('q').value = typed;
  prepare();
}

async function load() {
  pending = null;
  if (asked) asked.abort();
  const own = asked = new AbortController();
  try {
    const answer = await fetch(location.pathname + location.search, { signal: own.signal });
    const text = await answer.text();
    const page = new DOMParser().parseFromString(text, 'text/html');
    const now = page.getElementById('main');
    if (now && own === asked) {
      swap(now);
      shownAt = Date.now();
    }
  } catch (error) {
    if (error.name !== 'AbortError') mark('reconnecting');
  } finally {
    if (own === asked) asked = null;
  }
}

// At most one request in each pause.
function changed() {
  if (pending === null) pending = setTimeout(load, PAUSE_MS);
}

function go(url) {
  history.pushState(null, '', url);
  return load();
}

function prepare() {
  const copy = byId('copy');
  if (copy && navigator.clipboard) {
    copy.hidden = false;
    copy.onclick = async () => {
      await navigator.clipboard.writeText(byId('action').textContent);
      copy.textContent = 'Copied';
    };
  }
}

function follow() {
  const source = new EventSource(WATCH);
  // The page is live when the stream has reached the present.
  let isCurrent = false;
  source.onopen = () => { isCurrent = false; };
  source.onmessage = (event) => {
    const change = JSON.parse(event.data);
    const isPresent = change.snapshotComplete || change.bookmark;
    if (!isCurrent && !isPresent) return;
    if (!isCurrent || change.upserted || change.removed) changed();
    isCurrent = true;
    heard();
  };
  source.addEventListener('end', () => mark('reconnecting'));
  source.onerror = () => {
    if (state !== 'stale') mark('reconnecting');
    if (source.readyState === EventSource.CLOSED) {
      source.close();
      setTimeout(follow, 2000);
    }
  };
}

setInterval(() => {
  if (SILENT_MS < Date.now() - heardAt) mark('stale');
  else if (state === 'live' && REFRESH_MS < Date.now() - shownAt) changed();
}, 1000);

document.addEventListener('click', async (event) => {
  const link = event.target.closest && event.target.closest('main a, h1 a');
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  await go(link.href);
  if (byId('why') && link.id.startsWith('app-')) byId('why').focus();
});

document.addEventListener('submit', (event) => {
  event.preventDefault();
  go('/?' + new URLSearchParams(new FormData(event.target)));
});

document.addEventListener('change', (event) => {
  if (event.target.id === 'ns') event.target.form.requestSubmit();
});

document.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const isTyping = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
  if (event.key === 'Escape') {
    if (isTyping) event.target.blur();
    else if (byId('back')) byId('back').click();
  }
  if (isTyping) return;
  if (event.key === '/') {
    event.preventDefault();
    byId('q').focus();
  }
  if (event.key === 'j' || event.key === 'k') {
    const links = [...document.querySelectorAll('#apps tbody a')];
    const at = links.indexOf(document.activeElement);
    const to = links[event.key === 'j' ? Math.min(at + 1, links.length - 1) : Math.max(at - 1, 0)];
    if (to) to.focus();
  }
});

addEventListener('popstate', load);
prepare();
follow();
