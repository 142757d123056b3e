// Whether the page is current: proof, stale, and a server that goes away, freezes and comes back.
import { freePort, live, must, report, start } from '../browser.mjs';
import { binary, open, proxy, row, withServer } from './context.mjs';

const filter = (page) => page.evaluate(() => getComputedStyle(document.querySelector('.list')).filter);
const proved = (page) => page.waitForFunction(() => document.getElementById('proof').textContent.startsWith('✓'));

export default {
  'the page proves its copy, and replaces one that differs': () => withServer(async (server) => {
    await report(server, 'proved', 'ACTIVE');
    let harm = null;
    const front = await proxy(server, (event) => {
      const isHarmed = harm && event.includes('"upserted"') && event.includes('"proved"');
      const altered = isHarmed ? harm(event) : event;
      if (isHarmed) harm = null;
      return altered;
    });
    try {
      const page = await open(`127.0.0.1:${front.address().port}`);
      const harms = {
        dropped: () => null,
        changed: (event) => event.replace('"level":"LEVEL_WAITING"', '"level":"LEVEL_ERROR"'),
        old: (event) => event.replace(/"revision":"(\d+)"/, (_, n) => `"revision":"${n - 1}"`),
      };
      for (const [name, change] of Object.entries(harms)) {
        await live(page, 'live');
        await proved(page);
        await report(server, 'proved', 'ACTIVE', name);
        await row(page, 'default/proved').locator('.s.active').waitFor();
        harm = change;
        await report(server, 'proved', 'WAITING', name);
        await live(page, 'differs');
        must((await page.locator('#alarm').innerText()).startsWith('The copy in this browser differs'), name);
        must(harm === null, `${name}: the event passed the proxy`);
        await live(page, 'live');
        await row(page, 'default/proved').locator('.s.waiting').waitFor();
      }
      must(page.problems.length === 0, page.problems.join('; '));
    } finally {
      front.closeAllConnections();
      front.close();
    }
  }),

  'colours go and come with the server': async () => {
    const port = await freePort();
    const server = `127.0.0.1:${port}`;
    let child = await start(binary, port);
    try {
      await report(server, 'web', 'BLOCKED', 'text');
      const page = await open(server, '/', { permissions: ['clipboard-read', 'clipboard-write'] });
      await live(page, 'live');
      must(await filter(page) === 'none', 'a live page has colours');
      const at = Date.now();
      child.kill('SIGKILL');
      await live(page, 'reconnecting');
      console.log(`reconnecting after ${Date.now() - at} ms`);
      must(await filter(page) === 'none', 'a page that reconnects has colours');
      await live(page, 'stale');
      console.log(`stale after ${Date.now() - at} ms`);
      must(await filter(page) === 'grayscale(1)', await filter(page));
      const alarm = await page.locator('[role=alert]').innerText();
      must(/^No answer since \d\d:\d\d:\d\d UTC\.\s+\d+s ago\. Below is the last known state\./.test(alarm), alarm);
      must(await page.locator('#headline').getAttribute('data-own-age') !== null, 'the headline has its age');
      must(await page.locator('#proof').innerText() === '', 'no proof is shown');
      await page.waitForFunction(() => document.title.startsWith('stale · 1 blocked'));
      must(await page.locator('#icon').getAttribute('href') === '/page.svg?is=stale', 'the icon is stale');
      await page.locator('.do button').click();
      must(await page.evaluate(() => navigator.clipboard.readText()) === 'fix web', 'copy works while stale');
      child = await start(binary, port);
      const back = Date.now();
      await report(server, 'web', 'ERROR', 'back');
      await live(page, 'live');
      await row(page, 'default/web').locator('.s.error').waitFor();
      console.log(`back ${Date.now() - back} ms after the return of the server`);
      must(await filter(page) === 'none', 'the colours are back');
      must(await page.locator('[role=alert]').count() === 0, 'the banner is gone');
      await page.waitForFunction(() => document.title.startsWith('1 error'));
    } finally {
      child.kill('SIGKILL');
    }
  },

  'a frozen server is stale, and thaws': () => withServer(async (server, child) => {
    await report(server, 'web', 'ACTIVE');
    const page = await open(server);
    await live(page, 'live');
    child.kill('SIGSTOP');
    await live(page, 'stale');
    must(await filter(page) === 'grayscale(1)', await filter(page));
    child.kill('SIGCONT');
    await live(page, 'live');
    must(await filter(page) === 'none', await filter(page));
    must(page.problems.length === 0, page.problems.join('; '));
  }),

  'an answer from memory, without the store, is stale': () => withServer(async (server) => {
    await report(server, 'web', 'ACTIVE');
    const page = await open(server);
    await live(page, 'live');
    let isAway = true;
    await page.route((url) => url.pathname === '/', async (route) => {
      const answer = await route.fetch();
      const text = await answer.text();
      const away = text.replace(' data-now=', ' data-as-of="2026-11-26T14:03:12Z" data-now=');
      await route.fulfill({ response: answer, body: isAway ? away : text });
    });
    await report(server, 'web', 'ACTIVE', 'asks for the page');
    await live(page, 'stale');
    const alarm = await page.locator('[role=alert]').innerText();
    must(alarm.startsWith('The server has had no contact with its store since 14:03:12 UTC.'), alarm);
    must(await filter(page) === 'grayscale(1)', await filter(page));
    isAway = false;
    await report(server, 'web', 'ACTIVE', 'asks again');
    await live(page, 'live');
    must(await page.locator('[role=alert]').count() === 0, 'the banner is gone');
  }),
};
