package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"
)

// health is what Argo CD says about an object.
type health struct {
	Status  string `json:"status"`
	Message string `json:"message"`
}

// scripts are those of a folder. Each is read and compiled once.
type scripts struct {
	// Paths without a wildcard, such as `apps.example/Till`.
	named map[string]bool
	// Paths with a wildcard, in order.
	patterns []string
	folder   fs.FS
	compiled map[string]*lua.FunctionProto
	limits   limits
}

// readScripts lists the scripts of a folder.
func readScripts(folder string) (*scripts, error) {
	found := &scripts{
		named:    map[string]bool{},
		folder:   os.DirFS(folder),
		compiled: map[string]*lua.FunctionProto{},
		limits:   usual,
	}
	err := fs.WalkDir(found.folder, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || entry.Name() != "health.lua" {
			return err
		}
		kind := path.Dir(name)
		if strings.Contains(kind, "_") {
			found.patterns = append(found.patterns, kind)
		}
		found.named[kind] = true
		return nil
	})
	if err == nil && len(found.named) == 0 {
		err = fmt.Errorf("%s has no GROUP/KIND/health.lua", folder)
	}
	slices.Sort(found.patterns)
	return found, err
}

// find returns the path of the script for a group and kind; empty if there is none.
func (s *scripts) find(group, kind string) string {
	key := path.Join(group, kind)
	if s.named[key] {
		return key
	}
	for _, pattern := range s.patterns {
		// A name of Kubernetes has no sign that means something in a pattern.
		if is, err := path.Match(strings.ReplaceAll(pattern, "_", "*"), key); err == nil && is {
			return pattern
		}
	}
	return ""
}

// compile returns the script at a path, ready to run.
func (s *scripts) compile(name string) (*lua.FunctionProto, error) {
	if script := s.compiled[name]; script != nil {
		return script, nil
	}
	file := path.Join(name, "health.lua")
	text, err := fs.ReadFile(s.folder, file)
	if err != nil {
		return nil, err
	}
	chunk, err := parse.Parse(strings.NewReader(string(text)), file)
	if err != nil {
		return nil, err
	}
	script, err := lua.Compile(chunk, file)
	if err == nil {
		s.compiled[name] = script
	}
	return script, err
}

// healthOf runs the script for an object in JSON; nil if there is none, or if it says nothing.
func (s *scripts) healthOf(text []byte) (*health, error) {
	object := map[string]any{}
	if err := json.Unmarshal(text, &object); err != nil {
		return nil, fmt.Errorf("the input is no object in JSON: %w", err)
	}
	version, _ := object["apiVersion"].(string)
	kind, _ := object["kind"].(string)
	group, _, hasGroup := strings.Cut(version, "/")
	if !hasGroup {
		group = ""
	}
	name := s.find(group, kind)
	if kind == "" || name == "" {
		return nil, nil
	}
	script, err := s.compile(name)
	if err != nil {
		return nil, err
	}
	return run(script, object, s.limits)
}
