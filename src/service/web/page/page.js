// Keeps the status page live: a change on the watch makes it ask for the page again, and only the
// parts that differ are replaced, so that the focus stays. The script also keeps a copy of what the
// watch sent, and compares its digest with those of the bookmarks and with that of the page.
'use strict';

const WATCH = '/bellwether.v1.ApplicationService/WatchApplications?message=';
// The watch sends a bookmark every 4 s, even if nothing changes.
const SILENT_MS = 12000;
const PAUSE_MS = 250;
// Without a change the ages in the page still grow.
const REFRESH_MS = 15000;
// A copy that differs is replaced after a pause, which grows as long as no copy is proved.
const AGAIN_MS = 500;
const AGAIN_MS_MAX = 60000;

let heardAt = Date.now();
let state = 'connecting';
let asked = null;
let pending = null;
let shownAt = Date.now();
let source = null;
let followed = '';
let copy = new Map();
let sum = 0n;
let epoch = '';
let isDoubted = false;
let doubts = 0;
let restarts = 0;
let isPageDoubted = false;

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
    idle: ['○', 'not live', 'off'],
    differs: ['≠', 'the copy differs, loading it again', 'stale'],
  }[next];
  byId('live').className = kind;
  byId('live').firstElementChild.textContent = shape;
  byId('live-text').textContent = text;
}

// Only a bookmark or the end of a snapshot shows that the page has reached the present.
function heard() {
  heardAt = Date.now();
  mark(isDoubted ? 'differs' : 'live');
}

// The 64-bit FNV-1a hash of a text, in two halves of 32 bits.
const encoder = new TextEncoder();
function hash(text) {
  let high = 0xcbf29ce4;
  let low = 0x84222325;
  for (const byte of encoder.encode(text)) {
    const product = ((low ^ byte) >>> 0) * 0x1b3;
    const carry = Math.floor(product / 4294967296);
    high = (Math.imul(high, 0x1b3) + ((low ^ byte) << 8) + carry) >>> 0;
    low = product >>> 0;
  }
  return (BigInt(high) << 32n) | BigInt(low);
}

function forget(name) {
  const before = copy.get(name);
  if (before) sum = BigInt.asUintN(64, sum - before.hash);
  copy.delete(name);
}

function store(application) {
  const name = `${application.namespace}/${application.name}`;
  const level = (application.status?.level ?? 'LEVEL_UNSPECIFIED').slice(6).toLowerCase();
  forget(name);
  const own = hash(`${name}@${application.revision ?? 0}=${level}`);
  copy.set(name, { hash: own });
  sum = BigInt.asUintN(64, sum + own);
}

function digest() { return sum.toString(16).padStart(16, '0'); }

// Compares the copy with a bookmark. After a continued watch the server may be behind once.
function compare(bookmark, isContinued) {
  if (bookmark.digest !== digest()) {
    isDoubted = true;
    doubts += 1;
    if (!isContinued || 1 < doubts) again();
    return;
  }
  doubts = 0;
  const isLoading = pending !== null || asked !== null;
  const shown = byId('main').dataset.digest;
  if (shown && shown !== digest()) {
    // A change between the page and the bookmark explains one difference, and no second one.
    if (!isLoading) {
      isDoubted = isPageDoubted;
      isPageDoubted = true;
      changed();
    }
    return;
  }
  isDoubted = isPageDoubted = false;
  restarts = 0;
  const proof = byId('proof');
  proof.hidden = false;
  proof.textContent = `✓ verified ${new Date().toLocaleTimeString()}`;
  proof.title = `The copy of ${copy.size} applications has the digest of the server, ${digest()}.`;
}

// Starts the watch again with an empty copy.
function again() {
  if (source) source.close();
  const pause = Math.min(AGAIN_MS * 2 ** restarts, AGAIN_MS_MAX);
  restarts += 1;
  setTimeout(() => { follow(); changed(); }, pause);
}

// Returns whether a row stays. Ages differ in every row, so they are copied alone.
function stays(row, next) {
  const [times, ages] = [row, next].map((one) => one.getElementsByTagName('time'));
  for (let n = 0; n < times.length && n < ages.length; n += 1) {
    if (times[n].dateTime === ages[n].dateTime && times[n].textContent !== ages[n].textContent) {
      times[n].textContent = ages[n].textContent;
    }
  }
  return row.innerHTML === next.innerHTML;
}

// Replaces the rows that differ, and moves those that moved. The others are not touched, so that
// the browser need not lay them out again.
function patch(body, next) {
  const rows = new Map();
  for (const row of body.rows) rows.set(row.dataset.key, row);
  const isFirst = rows.size === 0;
  const kept = new Set();
  for (const row of next.rows) kept.add(row.dataset.key);
  for (const [key, row] of rows) if (!kept.has(key)) row.remove();
  const message = (one) => one.cells[0].textContent + one.cells[4].textContent;
  let at = body.firstElementChild;
  for (const row of [...next.rows]) {
    const old = rows.get(row.dataset.key);
    let use = old;
    if (!old || !stays(old, row)) {
      use = row;
      if (!isFirst && (!old || message(old) !== message(row))) row.className = 'changed';
      if (old === at && old) at = row;
      if (old) old.replaceWith(row);
    }
    // The row at this place comes further below.
    if (at && at !== use && at.nextElementSibling === use) at = use;
    if (at === use) at = at.nextElementSibling;
    else body.insertBefore(use, at);
  }
}

// Takes over what a new page shows.
function swap(now) {
  const main = byId('main');
  const focused = document.activeElement && document.activeElement.id;
  const typed = byId('q') && document.activeElement === byId('q') ? byId('q').value : null;
  const [table, next] = [byId('apps'), now.querySelector('#apps')];
  if (table && next) {
    patch(table.tBodies[0], next.tBodies[0]);
    while (main.firstChild !== table) main.firstChild.remove();
    while (table.nextSibling) table.nextSibling.remove();
    while (now.firstChild !== next) table.before(now.firstChild);
    while (next.nextSibling) main.append(next.nextSibling);
  } else main.replaceChildren(...now.childNodes);
  for (const name of ['watch', 'digest']) {
    if (name in now.dataset) main.dataset[name] = now.dataset[name];
    else delete main.dataset[name];
  }
  if (followed !== (main.dataset.watch ?? '')) follow();
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
    if (answer.status === 429) {
      // There is no room for this answer now. What is shown stays, and is asked for again.
      pending = setTimeout(load, AGAIN_MS * 4);
      return;
    }
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
  const button = byId('copy');
  if (button && navigator.clipboard) {
    button.hidden = false;
    button.onclick = async () => {
      await navigator.clipboard.writeText(byId('action').textContent);
      button.textContent = 'Copied';
    };
  }
}

function follow() {
  if (source) source.close();
  followed = byId('main').dataset.watch ?? '';
  copy = new Map();
  sum = 0n;
  doubts = 0;
  source = null;
  if (!followed) {
    byId('proof').hidden = true;
    mark('idle');
    return;
  }
  const own = source = new EventSource(WATCH + encodeURIComponent(followed));
  // The page is live when the stream has reached the present.
  let isCurrent = false;
  let isContinued = false;
  // What a snapshot has not contained yet.
  let unseen = new Set();
  own.onopen = () => {
    isCurrent = false;
    isContinued = 0 < copy.size;
    unseen = new Set(copy.keys());
  };
  own.onmessage = (event) => {
    const change = JSON.parse(event.data);
    if (change.storeEpoch && epoch && change.storeEpoch !== epoch) {
      // The store may have lost writes, so the copy may be newer than the store.
      epoch = change.storeEpoch;
      again();
      return;
    }
    epoch = change.storeEpoch || epoch;
    if (change.upserted) {
      store(change.upserted);
      unseen.delete(`${change.upserted.namespace}/${change.upserted.name}`);
    }
    if (change.removed) forget(`${change.removed.namespace}/${change.removed.name}`);
    if (change.snapshotComplete) {
      for (const name of unseen) forget(name);
      isContinued = false;
    }
    if (isCurrent && (change.upserted || change.removed)) changed();
    if (!change.snapshotComplete && !change.bookmark) return;
    if (!isCurrent && byId('main').dataset.digest !== digest()) changed();
    isCurrent = true;
    if (change.bookmark) compare(change.bookmark, isContinued);
    heard();
  };
  own.addEventListener('end', () => mark('reconnecting'));
  own.onerror = () => {
    if (state !== 'stale') mark('reconnecting');
    if (own.readyState !== EventSource.CLOSED || own !== source) return;
    // The server refused the watch; the page says why.
    setTimeout(() => { follow(); changed(); }, 2000);
  };
}

setInterval(() => {
  if (!followed) return;
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
  if (event.target.id !== 'filter') return;
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
