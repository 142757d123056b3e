
// The order of rows. A row changes in place at once; it moves when the reader rests.
let movedAt = -Infinity;
// The keys of the rows by the id of their group, in the order of the server.
let order = [];
let unsorted = 0;
// Whether a reader asked for this page: then it is sorted at once, and nothing is tinted.
let isAskedFor = false;
let isTinted = true;

function isHeld() { return byId('why') !== null || performance.now() - movedAt < REST_MS; }

function rowsOf(part) { return [...part.querySelectorAll('tr[data-key]')]; }
function said(row) { return row.cells[0].textContent + (row.querySelector('.text')?.textContent ?? ''); }

function tint(row) {
  if (!isTinted || isAskedFor || matchMedia('(prefers-reduced-motion: reduce)').matches) return;
  const from = getComputedStyle(root).getPropertyValue('--tint');
  row.animate([{ backgroundColor: from }, {}], { duration: 1500, easing: 'ease-out' });
}

// Takes over the rows of a new table: each in its place, new ones at the end of their group.
function takeRows(own, next) {
  const bodies = (table) => [...table.tBodies].map((body) => body.id).join();
  if (bodies(own) !== bodies(next)) {
    own.replaceWith(next);
    order = [...next.tBodies].map((body) => [body.id, rowsOf(body).map(keyOf)]);
    unsorted = 0;
    return;
  }
  morphAttributes(own, next);
  morph(own.tHead, next.tHead);
  order = [...next.tBodies].map((body) => [body.id, rowsOf(body).map(keyOf)]);
  const rows = new Map(rowsOf(own).map((row) => [keyOf(row), row]));
  const kept = new Set(order.flatMap(([, keys]) => keys));
  for (const [key, row] of rows) if (!kept.has(key)) row.remove();
  for (const body of [...next.tBodies]) {
    const target = byId(body.id);
    takeHeading(target, body);
    for (const row of rowsOf(body)) {
      const old = rows.get(keyOf(row));
      if (!old) {
        target.append(row);
        tint(row);
      } else if (!old.isEqualNode(row)) {
        const before = said(old);
        morph(old, row);
        if (said(old) !== before) tint(old);
      }
    }
    target.hidden = rowsOf(target).length === 0;
  }
  unsorted = countUnsorted();
  if (0 < unsorted && (isAskedFor || !isHeld())) sortRows();
  else showUnsorted();
}

function takeHeading(own, next) {
  const [old, heading] = [own, next].map((body) => body.querySelector('.group'));
  if (old && heading) morph(old, heading);
  else if (heading) own.prepend(heading);
}

// Returns how many rows have to move.
function countUnsorted() {
  const places = new Map();
  for (const [body, keys] of order) for (const key of keys) places.set(key, [places.size, body]);
  // The longest run that is in order stays.
  const ends = [];
  let astray = 0;
  let all = 0;
  for (const [id] of order) {
    for (const row of rowsOf(byId(id))) {
      const [place, body] = places.get(keyOf(row));
      all += 1;
      if (body !== id) {
        astray += 1;
        continue;
      }
      let low = 0;
      let high = ends.length;
      while (low < high) {
        const middle = (low + high) >> 1;
        if (ends[middle] < place) low = middle + 1;
        else high = middle;
      }
      ends[low] = place;
    }
  }
  return astray + (all - astray - ends.length);
}

function showUnsorted() {
  const link = byId('sort-status');
  if (!link) return;
  const text = unsorted ? `Status, ${unsorted} to be sorted` : 'Status';
  if (link.textContent !== text) link.textContent = text;
  if (unsorted) link.setAttribute('role', 'button');
  else link.removeAttribute('role');
}

// Moves rows to their places. What the reader sees stays where it is, and so does the focus.
function sortRows() {
  const focused = document.activeElement;
  const edge = byId('apps').tHead.getBoundingClientRect().bottom + 1;
  const seen = scrollY ? rowsOf(byId('apps')).find((row) => edge < row.getBoundingClientRect().bottom) : null;
  const before = seen?.getBoundingClientRect().top;
  const rows = new Map(rowsOf(byId('apps')).map((row) => [keyOf(row), row]));
  for (const [id, keys] of order) {
    const body = byId(id);
    let at = body.querySelector('tr[data-key]');
    for (const key of keys) {
      const row = rows.get(key);
      if (!row) continue;
      // The row at this place comes further below.
      if (at && at !== row && at.nextElementSibling === row) at = row;
      if (at === row) at = at.nextElementSibling;
      else body.insertBefore(row, at);
    }
  }
  for (const [id, keys] of order) {
    byId(id).hidden = keys.length === 0;
    if (keys.length === 0) byId(id).querySelector('.group')?.remove();
  }
  unsorted = 0;
  showUnsorted();
  if (seen) scrollBy(0, seen.getBoundingClientRect().top - before);
  if (focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true });
}
