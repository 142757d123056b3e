// Screenshots of the list of the status page for the README, light and dark. The server is started again for each hour of the last
// day that has a change, with the clock of that hour, so that there is a history. Arguments: the program, and the folder
// of the pictures.
import { once } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

import { freePort, launch, live, must, start } from './browser.mjs';
import { say, world } from './page_world.mjs';

const [binary, shots] = process.argv.slice(2);
const BYTES_MAX = 100 * 1024;
const SIZE = { width: 1240, height: 530 };

const library = readdirSync('/usr/lib').map((name) => `/usr/lib/${name}/faketime/libfaketimeMT.so.1`)
  .find(existsSync);
if (!library) process.exit(77);

const folder = mkdtempSync(path.join(tmpdir(), 'bellwether-shots-'));
const port = await freePort();
const server = `127.0.0.1:${port}`;

const HOUR = 3600;
const past = [
  [22.5, async () => {
    for (const name of ['prod/postgresql/0', 'prod/orders/0', 'prod/reports/0', 'prod/basket/0', 'prod/search/0']) {
      await say(server, name, 'ACTIVE');
    }
    for (const name of ['prod/worker/2', 'prod/checkout/4', 'prod/nightly/0', 'staging/etl/0', 'prod/auth/0']) {
      await say(server, name, 'ACTIVE');
    }
    await say(server, 'staging/gateway/0', 'BLOCKED', 'the licence ended yesterday');
  }],
  [15, () => say(server, 'prod/orders/0', 'WAITING', 'waiting for the database')],
  [14.4, () => say(server, 'prod/orders/0', 'ACTIVE')],
  [12, () => say(server, 'prod/nightly/0', 'MAINTENANCE', 'import')],
  [9, () => say(server, 'prod/postgresql/0', 'MAINTENANCE', 'upgrading to 16')],
  [8.2, () => say(server, 'prod/postgresql/0', 'ACTIVE')],
  [7, () => say(server, 'prod/worker/2', 'ERROR', 'crash loop')],
  [6, () => say(server, 'prod/worker/2', 'ACTIVE')],
  [3.1, () => say(server, 'prod/postgresql/0', 'BLOCKED', 'no backup target')],
  [3, () => say(server, 'prod/reports/0', 'WAITING', 'no database yet')],
  [2.1, () => say(server, 'prod/worker/2', 'ERROR', 'crash loop')],
  [1.6, () => say(server, 'prod/worker/2', 'ACTIVE')],
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
  await world(server);
  for (const colorScheme of ['light', 'dark']) {
    const context = await browser.newContext({ colorScheme, viewport: SIZE, reducedMotion: 'reduce' });
    const page = await context.newPage();
    await page.goto(`http://${server}/`);
    await live(page, 'live');
    await page.waitForFunction(() => document.getElementById('proof').textContent.startsWith('✓'));
    // The marks of silence need a second.
    await page.locator('tr[data-key="infra/registry"] .doubt').first().waitFor();
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
