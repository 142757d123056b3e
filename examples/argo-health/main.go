// Argo-health says how an object of Kubernetes is, by a health script of Argo CD:
//
//	argo-health FOLDER < object.json
//	argo-health --lines FOLDER
//
// FOLDER has the scripts as Argo CD has them, `GROUP/KIND/health.lua`; `_` in a name stands for any text, and objects of
// the core group have a folder `KIND`. The program prints `{"status": "Degraded", "message": "..."}`, and nothing if no
// script is for the object. With `--lines` it reads an object from each line until the input ends, and answers each with
// a line, which is `{}` if no script is for the object. A script that fails, or takes more than its time or memory,
// leads to exit code 1 with its error; with `--lines` to the line `{"error": "..."}`.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

// An object has at most 1.5 MiB in etcd, and more as text.
const objectBytesMax = 16 << 20

func main() {
	lines := flag.Bool("lines", false, "read an object a line, and answer each with a line")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: argo-health [--lines] FOLDER")
		os.Exit(2)
	}
	scripts, err := readScripts(flag.Arg(0))
	if err != nil {
		fmt.Fprintln(os.Stderr, "argo-health:", err)
		os.Exit(2)
	}
	run := one
	if *lines {
		run = each
	}
	if err := run(scripts, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "argo-health:", err)
		os.Exit(1)
	}
}

// one answers about a single object.
func one(scripts *scripts, in io.Reader, out io.Writer) error {
	text, err := io.ReadAll(io.LimitReader(in, objectBytesMax+1))
	if err != nil {
		return err
	}
	if objectBytesMax < len(text) {
		return errors.New("the object has more than 16 MiB")
	}
	health, err := scripts.healthOf(text)
	if err != nil || health == nil {
		return err
	}
	return json.NewEncoder(out).Encode(health)
}

// each answers each line with a line. It writes an answer before it reads the next line.
func each(scripts *scripts, in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 1<<16), objectBytesMax)
	encoder := json.NewEncoder(out)
	for lines.Scan() {
		var answer any = struct{}{}
		health, err := scripts.healthOf(lines.Bytes())
		if err != nil {
			answer = map[string]string{"error": err.Error()}
		} else if health != nil {
			answer = health
		}
		if err := encoder.Encode(answer); err != nil {
			return err
		}
	}
	return lines.Err()
}
