// The status page in Debian's chromium: first view, live change, why, filters in the URL, keys, a proof of the copy, a
// server that goes away and comes back, a session by a token, 360 px, no scripts, 5,000 applications, and axe in both
// themes. Arguments: the address of the server, the program, a folder for screenshots, and a part of the name of the only
// check to run.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';

import { DEADLINE, fill, freePort, launch, live, must, report, require, start } from './browser.mjs';

const [address, binary, shots, only] = process.argv.slice(2);
const browser = await launch();
const axe = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');

// A proxy in front of the server. `alter` gets each event of a watch, and returns what the browser gets instead.
async function proxy(server, alter) {
  const [host, port] = server.split(':');
  const front = http.createServer((request, response) => {
    const { method, url, headers } = request;
    const back = http.request({ host, port, method, path: url, headers }, (answer) => {
      response.writeHead(answer.statusCode, answer.headers);
      if (!(answer.headers['content-type'] ?? '').startsWith('text/event-stream')) return answer.pipe(response);
      let held = '';
      answer.setEncoding('utf8');
      answer.on('data', (text) => {
        const events = (held + text).split('\n\n');
        held = events.pop();
        for (const event of events) {
          const altered = alter(event);
          if (altered) response.write(`${altered}\n\n`);
        }
      });
      answer.on('close', () => response.destroy());
    });
    back.on('error', () => response.destroy());
    response.on('close', () => back.destroy());
    request.pipe(back);
  });
  await new Promise((done) => front.listen(0, '127.0.0.1', done));
  return front;
}

async function open(options, url = '/', server = address) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  page.setDefaultTimeout(DEADLINE);
  page.problems = [];
  page.on('pageerror', (error) => page.problems.push(String(error)));
  page.on('console', (message) => { if (message.type() === 'error') page.problems.push(message.text()); });
  await page.goto(`http://${server}${url}`);
  return page;
}

// What shows earlier was brought by the watch, and not by the page's own refresh every 15 s. How early it shows is
// measured by page_large.mjs.
const REFRESH = 10000;

const checks = {
  async 'a change shows by the watch, and why by one click'() {
    await report(address, 'well', 'ACTIVE');
    const page = await open({});
    await live(page, 'live');
    const at = Date.now();
    await report(address, 'well', 'BLOCKED', '<b>no database</b>');
    await page.locator('tr[data-key="default/well"] .status.blocked').waitFor();
    const took = Date.now() - at;
    must(took < REFRESH, `the change took ${took} ms`);
    must((await page.locator('td.message').first().textContent()).includes('<b>no database</b>'), 'text is text');
    await page.getByRole('link', { name: 'default/well' }).click();
    await page.locator('#why').waitFor();
    must(page.url().endsWith('?why=default/well'), page.url());
    must(await page.locator('#action').textContent() === 'fix well', 'the action is shown');
    must(await page.evaluate(() => document.activeElement.id) === 'why', 'the focus is on why');
    await page.keyboard.press('Escape');
    await page.locator('#why').waitFor({ state: 'detached' });
    must(page.problems.length === 0, page.problems.join('; '));
    console.log(`a change showed after ${took} ms`);
  },

  async 'filters are in the URL, and keys work'() {
    await report(address, 'one', 'ERROR', 'broken');
    await report(address, 'two', 'ACTIVE');
    const page = await open({});
    await page.locator('#level-error').click();
    await page.locator('tr[data-key="default/two"]').waitFor({ state: 'detached' });
    must(new URL(page.url()).search === '?level=error', page.url());
    await page.reload();
    must(await page.locator('tr[data-key="default/two"]').count() === 0, 'a filter survives a reload');
    await page.goBack();
    await page.locator('tr[data-key="default/two"]').waitFor();
    await page.keyboard.press('/');
    await page.keyboard.type('one');
    await page.keyboard.press('Enter');
    await page.locator('tr[data-key="default/two"]').waitFor({ state: 'detached' });
    await page.keyboard.press('Escape');
    await page.keyboard.press('j');
    must(await page.evaluate(() => document.activeElement.id) === 'app-default/one', 'j moves to the first row');
    await report(address, 'one', 'BLOCKED', 'still');
    await page.locator('tr[data-key="default/one"] .status.blocked').waitFor();
    must(await page.evaluate(() => document.activeElement.id) === 'app-default/one', 'the focus is kept');
    await page.keyboard.press('Enter');
    await page.locator('#why').waitFor();
  },

  async 'the page proves its copy, and replaces one that differs'() {
    await report(address, 'proved', 'ACTIVE');
    let harm = null;
    const front = await proxy(address, (event) => {
      const isHarmed = harm && event.includes('"upserted"') && event.includes('"proved"');
      const altered = isHarmed ? harm(event) : event;
      if (isHarmed) harm = null;
      return altered;
    });
    try {
      const page = await open({}, '/', `127.0.0.1:${front.address().port}`);
      const harms = {
        dropped: () => null,
        changed: (event) => event.replace('"level":"LEVEL_WAITING"', '"level":"LEVEL_ERROR"'),
        old: (event) => event.replace(/"revision":"(\d+)"/, (_, n) => `"revision":"${n - 1}"`),
      };
      for (const [name, change] of Object.entries(harms)) {
        await live(page, 'live');
        await page.waitForFunction(() => document.getElementById('proof').textContent.startsWith('✓ verified'));
        await report(address, 'proved', 'ACTIVE', name);
        await page.locator('tr[data-key="default/proved"] .status.active').waitFor();
        harm = change;
        await report(address, 'proved', 'WAITING', name);
        await live(page, 'the copy differs');
        must(harm === null, `${name}: the event passed the proxy`);
        await live(page, 'live');
        await page.locator('tr[data-key="default/proved"] .status.waiting').waitFor();
      }
      must(page.problems.length === 0, page.problems.join('; '));
    } finally {
      front.closeAllConnections();
      front.close();
    }
  },

  async 'a server that goes away is seen, and so is its return'() {
    const port = await freePort();
    const server = `127.0.0.1:${port}`;
    let child = await start(binary, port);
    try {
      await report(server, 'web', 'ACTIVE');
      const page = await open({}, '/', server);
      await live(page, 'live');
      child.kill('SIGKILL');
      await live(page, 'reconnecting');
      await live(page, 'stale since');
      child = await start(binary, port);
      await report(server, 'web', 'ERROR', 'back');
      await live(page, 'live');
      await page.locator('tr[data-key="default/web"] .status.error').waitFor();
    } finally {
      child.kill('SIGKILL');
    }
  },

  async 'a token in the form starts a session, which ends with the token'() {
    const folder = mkdtempSync(path.join(tmpdir(), 'bellwether-page-'));
    const [tokens, roles] = ['tokens.toml', 'roles.toml'].map((name) => path.join(folder, name));
    const token = (verb, id, ...more) =>
      execFileSync(binary, ['token', verb, id, '--tokens', tokens, ...more], { stdio: 'pipe' }).toString().trim();
    writeFileSync(roles, '[[grant]]\nrole = "reader"\nto = ["*"]\nnamespace = "*"\napplication = "*"\n');
    const secrets = ['first', 'second'].map((id) => token('create', id, '--ttl', '1h'));
    const port = await freePort();
    const child = await start(binary, port, ['--tokens', tokens, '--roles', roles]);
    try {
      const page = await open({}, '/?level=active', `127.0.0.1:${port}`);
      for (const [secret, isRevoked] of [[secrets[0], true], [secrets[1], false]]) {
        await page.locator('#token').fill('bw_wrong_00');
        await page.getByRole('button', { name: 'Sign in' }).click();
        await page.locator('.failed').waitFor();
        await page.locator('#token').fill(secret);
        await page.getByRole('button', { name: 'Sign in' }).click();
        await page.locator('#sign-out').waitFor();
        must(page.url().endsWith('/?level=active'), page.url());
        await live(page, 'live');
        const scripts = await page.evaluate(() => document.cookie);
        must(scripts === '', 'no script reads the cookie');
        if (isRevoked) token('revoke', 'first');
        else await page.getByRole('button', { name: 'Sign out' }).click();
        await page.locator('#token').waitFor();
        must(!isRevoked || page.url().endsWith('/?level=active'), page.url());
      }
    } finally {
      child.kill('SIGKILL');
      rmSync(folder, { recursive: true });
    }
  },

  async 'nothing is wider than 360 px, and the page works without scripts'() {
    await report(address, 'a-long-name-'.repeat(5), 'WAITING', 'a-long-word-'.repeat(30));
    const narrow = await open({ viewport: { width: 360, height: 740 } });
    const width = await narrow.evaluate(() => document.documentElement.scrollWidth);
    must(width <= 360, `the page is ${width} px wide`);
    await narrow.screenshot({ path: `${shots}/narrow.png` });
    const plain = await open({ javaScriptEnabled: false });
    await plain.locator('#level-waiting').click();
    must(plain.url().endsWith('?level=waiting'), plain.url());
    await plain.locator('tbody a').first().click();
    await plain.locator('#why').waitFor();
  },

  async 'axe finds nothing in both themes'() {
    await report(address, 'late', 'MAINTENANCE', 'upgrade');
    for (const colorScheme of ['light', 'dark']) {
      const page = await open({ colorScheme, bypassCSP: true, reducedMotion: 'reduce' }, '/?why=default/late');
      await live(page, 'live');
      await page.evaluate(axe);
      const { violations } = await page.evaluate(() => globalThis.axe.run());
      const found = violations.map((v) => `${v.id}: ${v.nodes.map((node) => node.html).slice(0, 2)}`);
      must(found.length === 0, `${colorScheme}: ${found.join('\n')}`);
      await page.screenshot({ path: `${shots}/${colorScheme}.png` });
    }
  },

  async 'an update among 5,000 applications shows'() {
    await fill(address, 5000);
    const page = await open({});
    await live(page, 'live');
    const at = Date.now();
    await report(address, 'app-4242', 'ERROR', 'one of many');
    await page.locator('tr[data-key="default/app-4242"] .status.error').waitFor();
    const took = Date.now() - at;
    must(took < REFRESH, `the change took ${took} ms`);
    console.log(`a change among 5,000 applications showed after ${took} ms`);
  },
};

let failed = 0;
for (const [name, check] of Object.entries(checks)) {
  if (only && !name.includes(only)) continue;
  try {
    await check();
    console.log(`ok: ${name}`);
  } catch (error) {
    failed += 1;
    console.error(`FAILED: ${name}: ${error.stack ?? error}`);
  }
}
await browser.close();
process.exit(failed === 0 ? 0 : 1);
