// Verifies a message with the reference library of Standard Webhooks, and refuses a changed one.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const require = createRequire(new URL("../../.tools/webhooks/", import.meta.url));
const { Webhook } = require("standardwebhooks");

const message = JSON.parse(readFileSync(process.argv[2], "utf8"));
const webhook = new Webhook(message.secret);
const body = webhook.verify(message.body, message.headers);
if (body.type !== "application.problem") throw new Error(JSON.stringify(body));
let refused = false;
try {
  webhook.verify(`${message.body} `, message.headers);
} catch {
  refused = true;
}
if (!refused) throw new Error("a changed body is taken for the message");
