// What moves while the page is live, and what does not.
import { fill, live, must, report } from '../browser.mjs';
import { names, open, REFRESH, row, withServer } from './context.mjs';

const UPDATES = 20;

export default {
  'the order of rows waits while the pointer moves, and is right when it rests': () => withServer(async (server) => {
    for (const name of ['a', 'b', 'c', 'd']) await report(server, name, 'ACTIVE');
    const page = await open(server);
    await live(page, 'live');
    await page.mouse.move(600, 400);
    await page.mouse.move(610, 410);
    const at = Date.now();
    await report(server, 'd', 'ERROR', 'broken');
    await row(page, 'default/d').locator('.s.error').waitFor();
    await report(server, 'new', 'ERROR', 'new');
    await row(page, 'default/new').waitFor();
    if (Date.now() - at < 4000) {
      must((await names(page)).includes('default/d') && (await names(page)).at(-1) === 'default/d', 'd stays in its place');
      const head = await page.locator('#sort-status').innerText();
      must(/^Status, \d to be sorted$/.test(head), head);
      must((await page.locator('#headline').innerText()).includes('2 in error'), 'the headline is never late');
    }
    const sorted = 'default/new,default/d,default/a,default/b,default/c';
    await page.waitForFunction((all) => all ===
      [...document.querySelectorAll('tr[data-key]')].map((one) => one.dataset.key).join(), sorted);
    must(await page.locator('#sort-status').innerText() === 'Status', 'nothing is left to be sorted');
  }),

  'a click on the head of the column sorts at once': () => withServer(async (server) => {
    for (const name of ['a', 'b', 'c']) await report(server, name, 'ACTIVE');
    const page = await open(server, '/?why=default/a');
    await live(page, 'live');
    await report(server, 'c', 'BLOCKED', 'stuck');
    await page.waitForFunction(() => document.getElementById('sort-status').textContent === 'Status, 1 to be sorted');
    must((await names(page)).at(-1) === 'default/c', 'the order waits for an open panel');
    await page.locator('#sort-status').click();
    must((await names(page))[0] === 'default/c', (await names(page)).join());
    must(await page.locator('#why').count() === 1, 'the panel stays');
  }),

  'nothing shifts over 20 updates of marks, ages and proofs': () => withServer(async (server) => {
    for (let n = 0; n < 60; n += 1) await report(server, `app-${n}`, 'ACTIVE', 'well');
    const page = await open(server);
    await live(page, 'live');
    await page.waitForFunction(() => document.getElementById('proof').textContent.startsWith('✓'));
    await page.evaluate(() => {
      globalThis.shifts = [];
      const name = ({ node, previousRect, currentRect }) =>
        `${(node?.parentElement ?? node)?.outerHTML.slice(0, 90)} ${previousRect.x} to ${currentRect.x}`;
      new PerformanceObserver((all) => {
        for (const one of all.getEntries()) globalThis.shifts.push(`${one.value}: ${one.sources.map(name).join()}`);
      }).observe({ type: 'layout-shift', buffered: false });
    });
    for (let n = 0; n < UPDATES; n += 1) {
      await report(server, `app-${n}`, 'ACTIVE', `update ${n}`);
      await row(page, `default/app-${n}`).getByText(`update ${n}`).waitFor({ state: 'attached' });
    }
    const shifts = await page.evaluate(() => globalThis.shifts);
    must(shifts.length === 0, `the layout shifted: ${shifts.join('\n')}`);
  }),

  'what the reader sees stays in place when rows move above it': () => withServer(async (server) => {
    for (let n = 0; n < 80; n += 1) await report(server, `app-${String(n).padStart(2, '0')}`, 'ACTIVE', 'well');
    const page = await open(server);
    await live(page, 'live');
    await page.evaluate(() => scrollTo(0, 1400));
    const seen = () => page.evaluate(() => document.elementFromPoint(600, 300).closest('tr').dataset.key);
    const before = await seen();
    const top = () => page.evaluate((key) => document.querySelector(`[data-key="${key}"]`).getBoundingClientRect().top, before);
    const at = await top();
    await report(server, 'app-79', 'ERROR', 'broken');
    await page.waitForFunction(() => document.querySelector('tr[data-key]').dataset.key === 'default/app-79');
    must(await seen() === before, `${await seen()} is in the place of ${before}`);
    must(Math.abs(await top() - at) < 2, `it moved from ${at} to ${await top()}`);
  }),

  'an update among 5,000 applications shows': () => withServer(async (server) => {
    await fill(server, 5000);
    const page = await open(server);
    await live(page, 'live');
    const at = Date.now();
    await report(server, 'app-4242', 'ERROR', 'one of many');
    await row(page, 'default/app-4242').locator('.s.error').waitFor();
    const took = Date.now() - at;
    must(took < REFRESH, `the change took ${took} ms`);
    console.log(`a change among 5,000 applications showed after ${took} ms`);
  }),
};
