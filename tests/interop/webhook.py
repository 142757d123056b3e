"""Verifies a message with the reference library of Standard Webhooks, and refuses a changed one."""

import json
import sys

from standardwebhooks.webhooks import Webhook, WebhookVerificationError

with open(sys.argv[1]) as file:
    message = json.load(file)
webhook = Webhook(message["secret"])
body = webhook.verify(message["body"], message["headers"])
assert body["type"] == "application.problem", body
try:
    webhook.verify(message["body"] + " ", message["headers"])
except WebhookVerificationError:
    sys.exit(0)
sys.exit("a changed body is taken for the message")
