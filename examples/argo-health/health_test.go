package main

import (
	"bufio"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"
)

func load(t *testing.T) *scripts {
	t.Helper()
	found, err := readScripts("testdata/scripts")
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// till returns a till with a status in JSON; empty: without one.
func till(status string) string {
	if status == "" {
		return `{"apiVersion": "shop.example/v1", "kind": "Till"}`
	}
	return `{"apiVersion": "shop.example/v1", "kind": "Till", "status": ` + status + `}`
}

func TestAnObjectHasTheHealthThatItsScriptReturns(t *testing.T) {
	tests := []struct{ object, expected string }{
		{till(""), `{"status":"Progressing","message":"the till starts"}`},
		{
			till(`{"drawers": 2, "conditions": [{"type": "Open", "status": "True"}]}`),
			`{"status":"Healthy","message":"open with 2"}`,
		},
		{
			till(`{"conditions": [{"status": "False", "message": "jammed"}, {"status": "False", "message": "empty"}]}`),
			`{"status":"Degraded","message":"empty, jammed"}`,
		},
		{till(`{"mode": "nothing"}`), ""},
		{till(`{"mode": "empty"}`), ""},
		{till(`{"mode": "odd"}`), `{"status":"Unknown","message":"Lua returned an invalid health status"}`},
		{till(`{"mode": "files"}`), `{"status":"Healthy","message":"false"}`},
		{till(`{"mode": "clock"}`), `{"status":"Healthy","message":"1970-01-02 number"}`},
		{`{"apiVersion": "a.lab.example/v2", "kind": "Any"}`, `{"status":"Suspended","message":"every kind of a.lab.example/v2"}`},
		{`{"apiVersion": "v1", "kind": "Lamp"}`, `{"status":"Missing","message":""}`},
		{`{"apiVersion": "lab.example/v2", "kind": "Any"}`, ""},
		{`{"apiVersion": "shop.example/v1", "kind": "Door"}`, ""},
		{`{"kind": "Till"}`, ""},
		{`{}`, ""},
	}
	for _, test := range tests {
		var out strings.Builder
		if err := one(load(t), strings.NewReader(test.object), &out); err != nil {
			t.Errorf("%s: %v", test.object, err)
		}
		if found := strings.TrimSpace(out.String()); found != test.expected {
			t.Errorf("%s: %s, expected %s", test.object, found, test.expected)
		}
	}
}

func TestAScriptThatFailsOrPassesALimitIsAnError(t *testing.T) {
	tests := []struct{ object, expected string }{
		{till(`{"mode": "text"}`), "the script returned a string; it must return a table"},
		{till(`{"mode": "number"}`), "the script returned a number as message; it must be a string"},
		{till(`{"mode": "endless"}`), "the script took more than 1s"},
		{till(`{"mode": "rep"}`), "string.rep makes at most 1048576 bytes here"},
		{till(`{"mode": "deep"}`), "stack overflow"},
		{`[1]`, "the input is no object in JSON"},
		{`{`, "the input is no object in JSON"},
	}
	for _, test := range tests {
		err := one(load(t), strings.NewReader(test.object), io.Discard)
		if err == nil || !strings.Contains(err.Error(), test.expected) {
			t.Errorf("%s: %v, expected %s", test.object, err, test.expected)
		}
	}
}

func TestAScriptEndsWhenTheHeapIsTooLarge(t *testing.T) {
	for _, mode := range []string{"greedy", "table"} {
		found := load(t)
		found.limits = limits{time: time.Minute, heap: 64 << 20}
		err := one(found, strings.NewReader(till(`{"mode": "`+mode+`"}`)), io.Discard)
		if err == nil || err.Error() != "the script took more than 64 MiB" {
			t.Errorf("%s: %v", mode, err)
		}
	}
}

func TestEachLineIsAnsweredBeforeTheNextIsRead(t *testing.T) {
	in, write := io.Pipe()
	read, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- each(load(t), in, out) }()
	answers := bufio.NewReader(read)
	for _, test := range []struct{ object, key, expected string }{
		{till(""), "status", "Progressing"},
		{`{"kind": "Door"}`, "status", ""},
		{till(`{"mode": "text"}`), "error", "the script returned a string; it must return a table with status and message"},
		{`no`, "error", "the input is no object in JSON: invalid character 'o' in literal null (expecting 'u')"},
		{till(`{"mode": "clock"}`), "status", "Healthy"},
	} {
		if _, err := io.WriteString(write, test.object+"\n"); err != nil {
			t.Fatal(err)
		}
		line, err := answers.ReadBytes('\n')
		if err != nil {
			t.Fatal(err)
		}
		answer := map[string]string{}
		if err := json.Unmarshal(line, &answer); err != nil || answer[test.key] != test.expected {
			t.Errorf("%s: %s, expected %s %s (%v)", test.object, line, test.key, test.expected, err)
		}
	}
	write.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestAFolderWithoutScriptsIsRefused(t *testing.T) {
	for _, folder := range []string{t.TempDir(), "testdata/none"} {
		if _, err := readScripts(folder); err == nil {
			t.Errorf("%s is accepted", folder)
		}
	}
}
