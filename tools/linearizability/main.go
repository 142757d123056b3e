// Judges a history of operations on leases, leader data and application statuses: is there an order of the operations
// in which each one takes effect between its call and its return, and in which one correct register would have given
// the same answers? Porcupine searches the order, for each application on its own.
//
// Usage: linearizability-check [-visualize FOLDER] [-timeout DURATION] HISTORY
//
// The history has one JSON object on each line, see line in history.go. The exit status is 0 if every application is
// linearizable, 1 if one is not, 2 if the history cannot be judged.
package main

import (
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/anishathalye/porcupine"
)

const (
	accepted = 0
	refused  = 1
	unjudged = 2
)

func main() {
	visualize := flag.String("visualize", "", "write a page for each application that is refused into this `folder`")
	timeout := flag.Duration("timeout", 10*time.Minute, "give up on an application after this `duration`")
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(unjudged)
	}
	history, err := read(flag.Arg(0))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(unjudged)
	}
	os.Exit(judge(history, *visualize, *timeout))
}

func judge(history history, folder string, timeout time.Duration) int {
	verdict := accepted
	start := time.Now()
	for _, application := range history.applications() {
		operations := history.of[application]
		result, info := porcupine.CheckOperationsVerbose(model, operations, timeout)
		switch result {
		case porcupine.Ok:
			continue
		case porcupine.Unknown:
			fmt.Printf("%s: no verdict after %s\n", application, timeout)
			verdict = max(verdict, unjudged)
		case porcupine.Illegal:
			fmt.Printf("%s: NOT linearizable: %s\n", application, stuck(operations, info))
			if verdict == accepted {
				verdict = refused
			}
		}
		if folder != "" {
			page := filepath.Join(folder, application+".html")
			if err := porcupine.VisualizePath(model, info, page); err != nil {
				fmt.Fprintln(os.Stderr, err)
			} else {
				fmt.Printf("%s: see %s\n", application, page)
			}
		}
	}
	words := map[int]string{accepted: "linearizable", refused: "REFUSED", unjudged: "NOT JUDGED"}
	fmt.Printf("%s: %d operations of %d applications, %d of unknown outcome, in %.1f s\n", words[verdict],
		history.count, len(history.of), history.unknown, time.Since(start).Seconds())
	return verdict
}

// Names the first operation that the longest order found does not contain.
func stuck(operations []porcupine.Operation, info porcupine.LinearizationInfo) string {
	var longest []porcupine.Operation
	for _, partition := range info.PartialLinearizationsOperations() {
		for _, order := range partition {
			if len(order) > len(longest) {
				longest = order
			}
		}
	}
	state := model.Init()
	placed := map[int]bool{}
	for _, operation := range longest {
		_, state = model.Step(state, operation.Input, operation.Output)
		placed[operation.Input.(input).number] = true
	}
	first := porcupine.Operation{Return: math.MaxInt64}
	for _, operation := range operations {
		if !placed[operation.Input.(input).number] && operation.Return < first.Return {
			first = operation
		}
	}
	return fmt.Sprintf("after %d of %d operations, at %s, no order has: %s", len(longest), len(operations),
		model.DescribeState(state), model.DescribeOperation(first.Input, first.Output))
}
