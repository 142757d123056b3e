
// What the mark says. Colour is for what is current: a stale page has none.
let heardAt = Date.now();
let state = 'connecting';
let triesAt = 0;

const MARKS = {
  live: ['live', 'on'],
  connecting: ['connecting', 'off'],
  reconnecting: ['reconnecting', 'off'],
  stale: ['stale', 'stale'],
  away: ['stale', 'stale'],
  differs: ['differs', 'stale'],
  idle: ['not live', 'off'],
  'signed-out': ['signed out', 'off'],
};

function isStale() { return state === 'stale' || state === 'away'; }

function mark(next) {
  if (state === next) return;
  state = next;
  const [text, kind] = MARKS[next];
  byId('live').className = kind;
  byId('live-text').textContent = text;
  root.classList.toggle('stale', isStale());
  if (isStale() || ['connecting', 'idle', 'signed-out'].includes(next)) byId('proof').textContent = '';
  alarm();
  retitle();
}

// Only a bookmark or the end of a snapshot shows that the page has reached the present.
function heard() {
  heardAt = Date.now();
  if (main().dataset.asOf) mark('away');
  else mark(isDoubted ? 'differs' : 'live');
}

// The banner is the only alert. Its text changes each second, so only its first words are announced.
function alarm() {
  const place = byId('alarm');
  if (!place) return;
  const [text, rest] = alarmWords();
  const headline = byId('headline');
  if (isStale() && headline) headline.dataset.ownAge = `${staleFor()} ago`;
  else if (headline) delete headline.dataset.ownAge;
  if (!text) {
    place.replaceChildren();
    return;
  }
  let banner = place.querySelector('.alarm');
  if (!banner) {
    banner = document.createElement('p');
    banner.className = 'alarm';
    banner.setAttribute('role', 'alert');
    banner.append(document.createElement('b'), ' ', document.createElement('span'));
    place.replaceChildren(banner);
  }
  if (banner.children.length < 2) return;
  for (const [node, words] of [[banner.children[0], text], [banner.children[1], rest]]) {
    if (node.textContent !== words) node.textContent = words;
  }
}

function staleFor() {
  const since = state === 'away' ? Date.parse(main().dataset.asOf) - skew : heardAt;
  return age(Math.floor((Date.now() - since) / 1000));
}

function alarmWords() {
  if (state === 'differs') return ['The copy in this browser differs from the server and is loaded again.', ''];
  if (state === 'away') {
    const since = clock(Date.parse(main().dataset.asOf) - skew);
    const { upstream } = main().dataset;
    const whom = upstream ? `This relay has had no contact with ${upstream}` : 'The server has had no contact with its store';
    return [`${whom} since ${since} UTC.`, 'Below is the last known state.'];
  }
  if (state !== 'stale') return ['', ''];
  const left = Math.ceil((triesAt - Date.now()) / 1000);
  const next = 0 < left ? ` Next try in ${left}s.` : '';
  return [`No answer since ${clock(heardAt)} UTC.`, `${staleFor()} ago. Below is the last known state.${next}`];
}

function prove(count, digest) {
  if (isStale()) return;
  const proof = byId('proof');
  if (!proof.firstElementChild) {
    const word = document.createElement('span');
    word.className = 'word';
    proof.replaceChildren('✓', word);
  }
  proof.firstElementChild.textContent = ` proved ${clock(Date.now())}`;
  proof.title = `The copy of ${count} applications has the digest of the server, ${digest}`;
}

// The title and the icon of the page as the server rendered them last.
let shownTitle = document.title;
let shownIcon = byId('icon').getAttribute('href');
let titledAt = 0;
let isTitlePending = false;

// The title changes at most once a second.
function retitle() {
  if (isTitlePending) return;
  isTitlePending = true;
  setTimeout(() => {
    isTitlePending = false;
    titledAt = Date.now();
    const title = isStale() && !shownTitle.startsWith('stale ') ? `stale · ${shownTitle}` : shownTitle;
    if (document.title !== title) document.title = title;
    const icon = isStale() ? '/page.svg?is=stale' : shownIcon;
    if (byId('icon').getAttribute('href') !== icon) byId('icon').setAttribute('href', icon);
  }, Math.max(0, titledAt + 1000 - Date.now()));
}
