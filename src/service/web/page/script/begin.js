// Keeps the status page live: a change on the watch makes it ask for the page again, and only what differs is changed, so
// that focus, scroll position and open folds stay. The script also keeps a copy of what the watch sent, and compares its
// digest with those of the bookmarks and with that of the page.
'use strict';

const WATCH = '/bellwether.v1.ApplicationService/WatchApplications?message=';
// The watch sends a bookmark every 4 s, even if nothing changes.
const SILENT_MS = 12000;
const PAUSE_MS = 250;
// Facts that no change of the watch announces, such as the contact of the server with its store.
const REFRESH_MS = 15000;
// A copy that differs is replaced after a pause, which grows as long as no copy is proved.
const AGAIN_MS = 500;
const AGAIN_MS_MAX = 60000;
// A browser connects again after this pause, as the server asks.
const RETRY_MS = 700;
// The order of rows waits for so long after the pointer or a key moved.
const REST_MS = 5000;
const TYPED_MS = 150;

const root = document.documentElement;
root.classList.add('script');
if (navigator.clipboard) root.classList.add('copies');

function byId(id) { return document.getElementById(id); }
function main() { return byId('main'); }
