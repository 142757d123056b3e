package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"

	"github.com/anishathalye/porcupine"
)

// One operation, as the recorder writes it.
type line struct {
	Client      int     `json:"client"`
	Application string  `json:"application"`
	Operation   string  `json:"operation"`
	Unit        string  `json:"unit"`
	Epoch       uint64  `json:"epoch"`
	Expected    *uint64 `json:"expected"`
	Value       string  `json:"value"`
	// Nanoseconds since the start of the run.
	Call   int64  `json:"call"`
	Return *int64 `json:"return"`
	// Absent if the outcome is unknown: the operation may take effect at any time after its call, or never.
	Result *output `json:"result"`
}

// What an operation asks.
type input struct {
	number    int
	operation string
	unit      string
	epoch     uint64
	expected  *uint64
	value     string
}

// What an operation was answered.
type output struct {
	Kind     string `json:"kind"`
	Epoch    uint64 `json:"epoch"`
	Holder   string `json:"holder"`
	Version  uint64 `json:"version"`
	Value    string `json:"value"`
	Revision uint64 `json:"revision"`
	Changed  bool   `json:"changed"`
}

type history struct {
	of      map[string][]porcupine.Operation
	count   int
	unknown int
}

func read(path string) (history, error) {
	history := history{of: map[string][]porcupine.Operation{}}
	file, err := os.Open(path)
	if err != nil {
		return history, err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var line line
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return history, fmt.Errorf("%s, line %d: %w", path, history.count+1, err)
		}
		history.add(line)
	}
	if history.count == 0 && lines.Err() == nil {
		return history, fmt.Errorf("%s has no operation", path)
	}
	for application, operations := range history.of {
		history.of[application] = append(operations, end(operations))
	}
	return history, lines.Err()
}

// Returns an operation after all answers: what has no answer may stand behind it without an effect.
func end(operations []porcupine.Operation) porcupine.Operation {
	last := int64(0)
	for _, operation := range operations {
		if operation.Return != math.MaxInt64 {
			last = max(last, operation.Return)
		}
	}
	return porcupine.Operation{
		Input:  input{number: -1, operation: "end"},
		Output: &output{Kind: "ok"},
		Call:   last + 1,
		Return: last + 2,
	}
}

func (h *history) add(line line) {
	operation := porcupine.Operation{
		ClientId: line.Client,
		Input:    input{h.count, line.Operation, line.Unit, line.Epoch, line.Expected, line.Value},
		Call:     line.Call,
		Output:   line.Result,
		Return:   math.MaxInt64,
	}
	if line.Result == nil {
		h.unknown++
	} else {
		operation.Return = *line.Return
	}
	h.of[line.Application] = append(h.of[line.Application], operation)
	h.count++
}

// In an order that does not vary.
func (h *history) applications() []string {
	var names []string
	for name := range h.of {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
