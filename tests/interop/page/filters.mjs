// Filters in the URL, search, and keys.
import { live, must, report } from '../browser.mjs';
import { focused, names, open, row, withServer } from './context.mjs';

async function some(server) {
  await report(server, 'one', 'ERROR', 'broken');
  await report(server, 'two', 'BLOCKED', 'stuck');
  await report(server, 'three', 'WAITING', 'not yet');
  await report(server, 'four', 'ACTIVE');
}

const shows = (page, wanted) => page.waitForFunction((all) =>
  [...document.querySelectorAll('tr[data-key]')].filter((one) => !one.hidden).map((one) => one.dataset.key.slice(8)).join()
    === all, wanted);

export default {
  'levels are switches, and the URL keeps them': () => withServer(async (server) => {
    await some(server);
    const page = await open(server);
    await live(page, 'live');
    await shows(page, 'one,two,three,four');
    await page.locator('#level-blocked').click();
    await shows(page, 'two');
    await page.locator('#level-error').click();
    await shows(page, 'one,two');
    must(new URL(page.url()).search === '?level=error,blocked', page.url());
    await page.reload();
    await shows(page, 'one,two');
    await page.locator('#level-blocked').click();
    await shows(page, 'one');
    await page.locator('#show-all').click();
    await shows(page, 'one,two,three,four');
    await page.locator('#show-attention').click();
    await shows(page, 'one,two');
    await page.goBack();
    await page.goBack();
    await shows(page, 'one');
    must(page.problems.length === 0, page.problems.join('; '));
  }),

  'a word that is no level gets a sentence': () => withServer(async (server) => {
    await some(server);
    const page = await open(server, '/?level=foo');
    const text = await page.locator('#none').innerText();
    must(text.startsWith('foo is no level. Levels: error, blocked'), text);
    await page.locator('#none a').click();
    await shows(page, 'one,two,three,four');
  }),

  'the search filters before Enter, and finds more by a request': () => withServer(async (server) => {
    await some(server);
    const page = await open(server);
    await live(page, 'live');
    // No request is answered until the rows were seen.
    let release;
    const held = new Promise((done) => { release = done; });
    await page.route('**/?*', async (route) => { await held; await route.continue(); });
    await page.keyboard.press('/');
    await page.keyboard.type('t/t');
    must((await names(page)).join() === 'default/two,default/three', (await names(page)).join());
    release();
    await page.waitForFunction(() => location.search === '?q=t%2Ft');
    await page.waitForFunction(() => document.querySelectorAll('tr[data-key]').length === 2);
    must(await page.locator('#q').inputValue() === 't/t', 'what was typed stays');
    const length = await page.evaluate(() => history.length);
    await page.keyboard.type('h');
    await shows(page, 'three');
    await page.waitForFunction(() => location.search === '?q=t%2Fth');
    must(await page.evaluate(() => history.length) === length, 'typing replaces the entry of the history');
    await report(server, 'three', 'ERROR', 'an answer while typing');
    await row(page, 'default/three').locator('.s.error').waitFor();
    must(await focused(page) === 'q', 'the focus stays in the field');
    await page.keyboard.press('Escape');
    await shows(page, 'three,one,two,four');
    must(await focused(page) === 'q', 'Escape clears first');
    await page.keyboard.press('Escape');
    must(await focused(page) !== 'q', 'and leaves then');
  }),

  'an empty filter leads back to all': () => withServer(async (server) => {
    await some(server);
    const page = await open(server, '/?q=nothing');
    await live(page, 'live');
    must((await page.locator('#none').innerText()).startsWith('No application matches.'), 'it says so');
    await page.locator('#none a').click();
    await shows(page, 'one,two,three,four');
    must(await page.locator('#q').inputValue() === '', 'the field is empty');
  }),

  'keys move, open, close and switch views, and can be turned off': () => withServer(async (server) => {
    await some(server);
    const page = await open(server);
    await live(page, 'live');
    await page.keyboard.press('j');
    must(await focused(page) === 'app-default/one', 'j moves to the first row');
    await page.keyboard.press('ArrowDown');
    must(await focused(page) === 'app-default/two', 'down moves on');
    await report(server, 'two', 'BLOCKED', 'still');
    await row(page, 'default/two').getByText('still').first().waitFor();
    must(await focused(page) === 'app-default/two', 'the focus is kept');
    await page.keyboard.press('Enter');
    await page.locator('#why').waitFor();
    await page.keyboard.press('j');
    await page.waitForFunction(() => location.search === '?why=default/three');
    await page.locator('#why-title').getByText('three').waitFor();
    await page.keyboard.press('Escape');
    await page.locator('#why').waitFor({ state: 'detached' });
    await page.keyboard.press('a');
    await shows(page, 'one,two');
    await page.keyboard.press('a');
    await shows(page, 'one,two,three,four');
    await page.keyboard.press('b');
    await page.locator('#causes').waitFor();
    await page.keyboard.press('b');
    await shows(page, 'one,two,three,four');
    await page.locator('#keys').click();
    await page.keyboard.press('a');
    await page.reload();
    await live(page, 'live');
    await page.keyboard.press('a');
    await page.keyboard.press('/');
    must(new URL(page.url()).search === '', page.url());
    must(await focused(page) !== 'q', 'keys are off after a reload too');
    must(await page.locator('#keys').innerText() === 'Turn keys on', 'they can be turned on');
  }),
};
