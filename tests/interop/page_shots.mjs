// Screenshots of the status page for the README, light and dark. The server is started again for each hour of the last
// day that has a change, with the clock of that hour, so that there is a history. Arguments: the program, and the folder
// of the pictures.
import { once } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

import { call, freePort, launch, live, must, start } from './browser.mjs';

const [binary, shots] = process.argv.slice(2);
const BYTES_MAX = 100 * 1024;
const SIZE = { width: 1000, height: 730 };

const library = readdirSync('/usr/lib').map((name) => `/usr/lib/${name}/faketime/libfaketimeMT.so.1`)
  .find(existsSync);
if (!library) process.exit(77);

const folder = mkdtempSync(path.join(tmpdir(), 'bellwether-shots-'));
const port = await freePort();
const server = `127.0.0.1:${port}`;

function report(name, level, message = '', more = {}) {
  const [application, n] = name.split('/');
  const status = { level: `LEVEL_${level}`, message, ...more };
  const unit = `${application}/${n}`;
  return call(server, 'ReportService/ReportStatus', { namespace: 'prod', application, unit, status });
}

const HOUR = 3600;
const past = [
  [22.5, async () => {
    for (const name of ['api/0', 'api/1', 'web/0', 'web/1', 'web/2', 'postgresql/0', 'redis/0', 'ingress/0']) {
      await report(name, 'ACTIVE');
    }
  }],
  [15, () => report('web/1', 'WAITING', 'waiting for the database')],
  [14.4, () => report('web/1', 'ACTIVE')],
  [9, () => report('web/0', 'MAINTENANCE', 'upgrading to 2.4')],
  [8.2, () => report('web/0', 'ACTIVE')],
  [3.1, () => report('web/2', 'ERROR', 'database unreachable')],
  [2.6, () => report('web/2', 'ACTIVE')],
  [0.7, () => report('web/0', 'BLOCKED', 'add a database relation', { action: 'juju integrate web postgresql' })],
  [0.5, () => report('redis/0', 'MAINTENANCE', 'backup, 40 %')],
  [0.2, () => report('ingress/0', 'WAITING', 'waiting for a certificate')],
];

async function end(child) {
  const ended = once(child, 'exit');
  child.kill('SIGTERM');
  await ended;
}

for (const [hours, change] of past) {
  const env = { LD_PRELOAD: library, FAKETIME: `-${Math.round(hours * HOUR)}s`, FAKETIME_DONT_FAKE_MONOTONIC: '1' };
  const child = await start(binary, port, [], folder, env);
  await change();
  await end(child);
}
const child = await start(binary, port, [], folder);
const browser = await launch();
try {
  const claim = { namespace: 'prod', application: 'web', unit: 'web/1', leaseDuration: '300s' };
  await call(server, 'LeaderService/ClaimLeadership', claim);
  for (const colorScheme of ['light', 'dark']) {
    const context = await browser.newContext({ colorScheme, viewport: SIZE, reducedMotion: 'reduce' });
    const page = await context.newPage();
    await page.goto(`http://${server}/?why=prod/web`);
    await live(page, 'live');
    await page.waitForFunction(() => document.getElementById('proof').textContent.startsWith('✓'));
    const file = path.join(shots, `page-${colorScheme}.png`);
    await page.screenshot({ path: file });
    const { size } = statSync(file);
    must(size <= BYTES_MAX, `${file} has ${size} bytes`);
    console.log(`${file}: ${size} bytes`);
  }
} finally {
  await browser.close();
  await end(child);
  rmSync(folder, { recursive: true });
}
