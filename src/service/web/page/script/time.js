
// Ages by the rule of the command line: 59s, 59m, 47h, then days.
function age(seconds) {
  if (seconds < 60) return `${Math.max(seconds, 0)}s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)}h`;
  return `${Math.floor(seconds / 86400)}d`;
}

// How far the clock of the server is ahead; small differences are those of transport.
let skew = 0;
const SKEW_MS_MIN = 5000;
function setClock() {
  const ahead = Number(main().dataset.now) - Date.now();
  skew = SKEW_MS_MIN < Math.abs(ahead) ? ahead : 0;
}

function clock(millis) { return new Date(millis + skew).toISOString().slice(11, 19); }

// Writes the age of each time, in the page or in one that has just arrived.
function setAges(within) {
  const now = Date.now() + skew;
  for (const time of within.getElementsByTagName('time')) {
    if (time.className === 'clock') continue;
    const seconds = Math.floor((now - Date.parse(time.dateTime)) / 1000);
    let text = age(seconds);
    if (time.className === 'next') text = seconds < 0 ? `in ${age(-seconds)}` : 'now';
    if (time.textContent !== text) time.textContent = text;
  }
}
