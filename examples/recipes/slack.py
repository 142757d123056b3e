#!/usr/bin/env python3
"""Sends a message to Slack for a change of level: for `bellwether watch --exec`.

SLACK_WEBHOOK is the URL of an incoming webhook. Anything that takes JSON with a `text` takes these messages too.
"""

import json
import os
import sys
import urllib.request

name, level = os.environ["BELLWETHER_APPLICATION"], os.environ["BELLWETHER_LEVEL"]
before = os.environ.get("BELLWETHER_LEVEL_FROM", "")
if os.environ["BELLWETHER_EVENT"] == "removed":
    text = f"{name} is deleted"
elif before:
    text = f"{name} is {level}, was {before}: {os.environ['BELLWETHER_MESSAGE'] or 'no message'}"
else:
    sys.exit()  # The state at the start, or a change of another field.

request = urllib.request.Request(
    os.environ["SLACK_WEBHOOK"], json.dumps({"text": text}).encode(), {"content-type": "application/json"}
)
urllib.request.urlopen(request, timeout=10).read()
