// How the page looks: widths, themes, no scripts, and what axe finds. Screenshots have the name of the view.
import { live, must } from '../browser.mjs';
import { say, world } from '../page_world.mjs';
import { axe, names, open, shots, withServer } from './context.mjs';

const VIEWS = { list: '/', why: '/?why=prod/checkout', blockers: '/?view=blockers' };
const SIZES = { wide: { width: 1280, height: 800 }, tablet: { width: 768, height: 900 }, phone: { width: 360, height: 740 } };
const WIDTHS = [320, 360, 700, 900, 1024, 1280, 1920];

async function judge(page, what) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => globalThis.axe.run());
  const found = violations.map((v) => `${v.id}: ${v.nodes.map((node) => node.html).slice(0, 2)}`);
  must(found.length === 0, `${what}: ${found.join('\n')}`);
  await page.screenshot({ path: `${shots}/${what}.png` });
}

// Judges a view in both themes and three widths.
async function each(server, name, url, mark, prepare = () => {}) {
  for (const colorScheme of ['light', 'dark']) {
    for (const [size, viewport] of Object.entries(SIZES)) {
      const page = await open(server, url, { colorScheme, viewport, bypassCSP: true, reducedMotion: 'reduce' });
      await live(page, 'live');
      await prepare(page);
      await live(page, mark);
      await judge(page, `${name}-${colorScheme}-${size}`);
      await page.context().close();
    }
  }
}

export default {
  'axe finds nothing in any view, theme and width': () => withServer(async (server) => {
    await each(server, 'empty', '/', 'live');
    await world(server);
    for (const [name, url] of Object.entries(VIEWS)) await each(server, name, url, 'live');
    await each(server, 'stale', '/', 'stale', async (page) => {
      // The clock of the browser goes on without a bookmark.
      await page.evaluate(() => { heardAt -= SILENT_MS; });
    });
  }),

  'with the colours of the system, each level and each part of a strip is still seen': () => withServer(async (server) => {
    await world(server);
    for (const [name, url] of Object.entries(VIEWS)) {
      const page = await open(server, url, { forcedColors: 'active', bypassCSP: true });
      await live(page, 'live');
      await judge(page, `${name}-system-colours`);
      const unseen = await page.evaluate(() => {
        const ground = getComputedStyle(document.body).backgroundColor;
        const drawn = [...document.querySelectorAll('.strip rect:not(.none)')];
        const marks = [...document.querySelectorAll('.s')];
        const mark = (one) => getComputedStyle(one, '::before');
        return [
          ...drawn.filter((rect) => getComputedStyle(rect).fill === ground).map((rect) => rect.outerHTML),
          ...marks.filter((one) => [mark(one).backgroundColor, 'rgba(0, 0, 0, 0)'].includes(ground)).map((one) => one.outerHTML),
        ].slice(0, 3);
      });
      must(unseen.length === 0, `${name}: ${unseen.join(' ')}`);
      await page.context().close();
    }
  }),

  'nothing is wider than the window, and the controls of a phone are low': () => withServer(async (server) => {
    await world(server);
    await say(server, `prod/${'a-long-name-'.repeat(5)}/0`, 'BLOCKED', 'a-long-word-'.repeat(30), { action: 'x'.repeat(90) });
    for (const [name, url] of Object.entries(VIEWS)) {
      const page = await open(server, url);
      await live(page, 'live');
      for (const width of WIDTHS) {
        await page.setViewportSize({ width, height: 740 });
        const wide = await page.evaluate(() => document.documentElement.scrollWidth);
        must(wide <= width, `${name} is ${wide} px wide at ${width} px`);
      }
    }
    const phone = await open(server, '/', { viewport: SIZES.phone });
    await live(phone, 'live');
    const height = await phone.evaluate(() => document.getElementById('tools').offsetHeight);
    must(height <= 60, `the controls of a phone are ${height} px high`);
    await phone.locator('label.search').click();
    await phone.keyboard.type('mysql');
    must((await names(phone)).join() === 'prod/mysql', 'the search opens on a phone');
    const wide = await open(server);
    await live(wide, 'live');
    const top = await wide.evaluate(() => document.querySelector('tr[data-key]').getBoundingClientRect().top);
    must(top <= 240, `the first row begins at ${top} px`);
  }),

  'the page works without scripts': () => withServer(async (server) => {
    await world(server);
    const page = await open(server, '/', { javaScriptEnabled: false });
    must(/^as of \d\d:\d\d:\d\d$/.test(await page.locator('#live-text').innerText()), 'the mark is the time of the page');
    must(!await page.locator('.do button').first().isVisible(), 'no button promises a copy');
    await page.locator('#level-waiting').click();
    must(page.url().endsWith('?level=waiting'), page.url());
    await page.locator('#q').fill('orders');
    await page.locator('#q').press('Enter');
    must(page.url().includes('q=orders') && page.url().includes('level=waiting'), page.url());
    // The link of the name covers the row.
    const box = await page.locator('tr[data-key="prod/orders"] .message').boundingBox();
    await page.mouse.click(box.x + 20, box.y + 8);
    await page.locator('#why').waitFor();
    await page.locator('#back').click();
    await page.locator('#tab-blockers').click();
    await page.locator('#causes li').first().waitFor();
  }),
};
