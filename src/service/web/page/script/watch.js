
let source = null;
let followed = '';
let copyOf = new Map();
let sum = 0n;
let epoch = '';
let isDoubted = false;
let doubts = 0;
let restarts = 0;
let isPageDoubted = false;

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
  const before = copyOf.get(name);
  if (before) sum = BigInt.asUintN(64, sum - before.hash);
  copyOf.delete(name);
}

function store(application) {
  const name = `${application.namespace}/${application.name}`;
  const level = (application.status?.level ?? 'LEVEL_UNSPECIFIED').slice(6).toLowerCase();
  forget(name);
  const own = hash(`${name}@${application.revision ?? 0}=${level}`);
  copyOf.set(name, { hash: own });
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
  const shown = main().dataset.digest;
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
  prove(copyOf.size, digest());
}

// Starts the watch again with an empty copy.
function again() {
  if (source) source.close();
  const pause = Math.min(AGAIN_MS * 2 ** restarts, AGAIN_MS_MAX);
  restarts += 1;
  setTimeout(() => { follow(); changed(); }, pause);
}

function follow() {
  if (source) source.close();
  followed = main().dataset.watch ?? '';
  copyOf = new Map();
  sum = 0n;
  doubts = 0;
  source = null;
  if (!followed) {
    mark(byId('sign-in') ? 'signed-out' : 'idle');
    return;
  }
  const own = source = new EventSource(WATCH + encodeURIComponent(followed));
  // The page is live when the stream has reached the present.
  let isCurrent = false;
  let isContinued = false;
  // What a snapshot has not contained yet.
  let unseen = new Set();
  own.onopen = () => {
    // Nothing is tinted after a pause: everything may have changed.
    isTinted = false;
    isCurrent = false;
    isContinued = 0 < copyOf.size;
    unseen = new Set(copyOf.keys());
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
    if (!isCurrent && main().dataset.digest !== digest()) changed();
    isCurrent = true;
    if (change.bookmark) compare(change.bookmark, isContinued);
    heard();
    isTinted = true;
  };
  own.addEventListener('end', () => { if (!isStale()) mark('reconnecting'); });
  own.onerror = () => {
    triesAt = Date.now() + RETRY_MS;
    if (!isStale()) mark('reconnecting');
    if (own.readyState !== EventSource.CLOSED || own !== source) return;
    // The server refused the watch; the page says why.
    setTimeout(() => { follow(); changed(); }, 2000);
  };
}

setInterval(() => {
  setAges(document);
  if (isStale()) alarm();
  if (0 < unsorted && !isHeld()) sortRows();
  if (followed && SILENT_MS < Date.now() - heardAt) mark('stale');
  else if (['live', 'away', 'idle'].includes(state) && REFRESH_MS < Date.now() - shownAt) changed();
}, 1000);
