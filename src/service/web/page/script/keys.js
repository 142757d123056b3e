
// Links and rows lead to another view without a new page. `row` is the one to return to.
let listScroll = 0;
let following = null;

function rowLink(row) { return row?.querySelector('.name a'); }
function whyKey() { return new URLSearchParams(location.search).get('why') ?? ''; }
function visibleRows() { return byId('apps') ? rowsOf(byId('apps')).filter((row) => !row.hidden) : []; }

// The place of the row whose panel is open, for when the row goes.
let place = 0;
function notePlace() {
  const at = visibleRows().findIndex((row) => row.dataset.key === whyKey());
  if (0 <= at) place = at;
}

// Opens the panel. On a narrow window it takes the place of the list.
async function openWhy(url) {
  const isList = !byId('why');
  if (isList) listScroll = scrollY;
  await go(url);
  const why = byId('why');
  if (!why) return;
  if (isList && matchMedia('(max-width: 56.24rem)').matches) scrollTo(0, 0);
  why.scrollTop = 0;
  why.focus({ preventScroll: true });
}

// Closes the panel. The focus returns to the row, or to the one in its place.
async function closeWhy(url) {
  const key = whyKey();
  await go(url);
  if (scrollY !== listScroll && matchMedia('(max-width: 56.24rem)').matches) scrollTo(0, listScroll);
  const rows = visibleRows();
  const row = rows.find((one) => one.dataset.key === key) ?? rows[Math.min(place, rows.length - 1)];
  rowLink(row)?.focus({ preventScroll: true });
}

function follows(link, event) {
  if (event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0) return;
  event.preventDefault();
  const to = new URL(link.href);
  if (link.id === 'sort-status' && 0 < unsorted) sortRows();
  else if (link.id === 'back') closeWhy(link.href);
  else if (to.searchParams.has('why')) openWhy(link.href);
  else go(link.href).then(() => { if (byId('q')) byId('q').value = to.searchParams.get('q') ?? ''; filterRows(); });
}

document.addEventListener('click', (event) => {
  const at = event.target;
  const button = at.closest('button');
  if (button?.parentElement.className === 'do') copy(button);
  if (button?.id === 'keys') turnKeys(areKeysOn() ? 'off' : 'on');
  const link = at.closest('main a, header a, .tabs a');
  if (link) follows(link, event);
  const row = at.closest('tr[data-key]');
  if (!row || at.closest('a, button') || String(getSelection())) return;
  if (event.ctrlKey || event.metaKey || event.shiftKey) open(rowLink(row).href, '_blank', 'noopener');
  else openWhy(rowLink(row).href);
});

document.addEventListener('auxclick', (event) => {
  const row = event.target.closest('tr[data-key]');
  if (row && event.button === 1 && !event.target.closest('a')) open(rowLink(row).href, '_blank', 'noopener');
});

document.addEventListener('submit', (event) => {
  if (event.target.id !== 'filter' || !byId('apps') && !byId('none')) return;
  event.preventDefault();
  clearTimeout(typing);
  go(formUrl());
});

document.addEventListener('change', (event) => {
  if (event.target.id === 'ns' && event.target.form.id === 'filter') event.target.form.requestSubmit();
});

document.addEventListener('input', (event) => { if (event.target.id === 'q') search(); });

for (const kind of ['pointermove', 'pointerdown', 'wheel', 'keydown']) {
  document.addEventListener(kind, () => { movedAt = performance.now(); }, { passive: true });
}

// Keys of one character can be turned off, because other programs of a reader may send them.
function areKeysOn() {
  try {
    return localStorage.getItem('bellwether-keys') !== 'off';
  } catch {
    return true;
  }
}

function turnKeys(to) {
  try {
    localStorage.setItem('bellwether-keys', to);
  } catch { /* a browser without storage keeps the keys on */ }
  nameKeys();
}

function nameKeys() { byId('keys').textContent = areKeysOn() ? 'Turn keys off' : 'Turn keys on'; }

// Moves to another row. An open panel follows when the keys rest.
function step(by) {
  const rows = visibleRows();
  const current = document.activeElement.closest?.('tr[data-key]');
  let at = rows.indexOf(current);
  if (at < 0) at = rows.findIndex((row) => row.dataset.key === whyKey());
  const row = rows[Math.max(0, Math.min(at + by, rows.length - 1))];
  if (!row) return;
  rowLink(row).focus();
  clearTimeout(following);
  if (byId('why')) following = setTimeout(() => go(rowLink(row).href, true), TYPED_MS);
}

const KEYS = {
  '/': () => byId('q')?.focus(),
  j: () => step(1),
  k: () => step(-1),
  a: () => byId(new URLSearchParams(location.search).get('show') === 'attention' ? 'show-all' : 'show-attention')?.click(),
  b: () => byId(byId('causes') || /view=blockers/.test(location.search) ? 'tab-list' : 'tab-blockers')?.click(),
  c: () => copy((document.activeElement.closest('tr[data-key], .causes > li') ?? byId('why'))?.querySelector('.do button')),
};

document.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const isTyping = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
  if (event.key === 'Escape') {
    if (event.target.id === 'q' && event.target.value) {
      event.preventDefault();
      event.target.value = '';
      search();
    } else if (isTyping) event.target.blur();
    else byId('back')?.click();
    return;
  }
  if (isTyping) return;
  const isRow = event.target.closest?.('tr[data-key]');
  if (isRow && (event.key === 'ArrowDown' || event.key === 'ArrowUp')) {
    event.preventDefault();
    step(event.key === 'ArrowDown' ? 1 : -1);
  } else if (KEYS[event.key] && areKeysOn()) {
    event.preventDefault();
    KEYS[event.key]();
  }
});

addEventListener('popstate', async () => {
  isAskedFor = true;
  await load();
  if (byId('q')) byId('q').value = new URLSearchParams(location.search).get('q') ?? '';
  filterRows();
});

nameKeys();
if (byId('apps')) order = [...byId('apps').tBodies].map((body) => [body.id, rowsOf(body).map(keyOf)]);
notePlace();
setClock();
setAges(document);
mark(main().dataset.asOf ? 'away' : state);
follow();
