// A session of a browser by a token.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

import { freePort, live, must, start } from '../browser.mjs';
import { binary, open } from './context.mjs';

export default {
  'a token in the form starts a session, which ends with the token': async () => {
    const folder = mkdtempSync(path.join(tmpdir(), 'bellwether-page-'));
    const [tokens, roles] = ['tokens.toml', 'roles.toml'].map((name) => path.join(folder, name));
    const token = (verb, id, ...more) =>
      execFileSync(binary, ['token', verb, id, '--tokens', tokens, ...more], { stdio: 'pipe' }).toString().trim();
    writeFileSync(roles, '[[grant]]\nrole = "reader"\nto = ["*"]\nnamespace = "*"\napplication = "*"\n');
    const secrets = ['first', 'second'].map((id) => token('create', id, '--ttl', '1h'));
    const port = await freePort();
    const child = await start(binary, port, ['--tokens', tokens, '--roles', roles]);
    try {
      const page = await open(`127.0.0.1:${port}`, '/?level=active');
      await live(page, 'signed out');
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
};
