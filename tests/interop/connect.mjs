// A client by fetch of Node.js alone: a call, an error, and a watch with its frames.
const address = process.argv[2];

function must(holds, what) {
  if (!holds) {
    console.error(what);
    process.exit(1);
  }
}

function post(method, message, type = 'application/json') {
  const body = typeof message === 'string' ? message : JSON.stringify(message);
  const headers = { 'content-type': type };
  return fetch(`http://${address}/bellwether.v1.${method}`, { method: 'POST', headers, body });
}

const status = { level: 'LEVEL_BLOCKED', message: 'no database' };
const reported = await post('ReportService/ReportStatus', { application: 'web', unit: 'web/0', status });
must(reported.ok, await reported.text());
const missing = await post('ApplicationService/GetApplication', { application: 'api' });
const error = await missing.json();
must(missing.status === 404 && error.code === 'not_found', JSON.stringify(error));

// A frame: flags, a length of four bytes, and JSON.
const frame = '\0\0\0\0\x02{}';
const watch = await post('ApplicationService/WatchApplications', frame, 'application/connect+json');
const reader = watch.body.getReader();
let held = Buffer.alloc(0);
async function next() {
  while (held.length < 5 || held.length < 5 + held.readUInt32BE(1)) {
    const { value, done } = await reader.read();
    must(!done, 'the watch ended');
    held = Buffer.concat([held, value]);
  }
  const end = 5 + held.readUInt32BE(1);
  const message = JSON.parse(held.subarray(5, end));
  held = held.subarray(end);
  return message;
}
const first = await next();
must(first.upserted.status.message === 'no database', JSON.stringify(first));
must((await next()).snapshotComplete, 'the snapshot is complete');
await post('ReportService/ClearStatus', { application: 'web', unit: 'web/0' });
must((await next()).upserted, 'a change follows');
await reader.cancel();
