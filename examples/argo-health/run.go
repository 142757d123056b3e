package main

import (
	"context"
	"errors"
	"fmt"
	"runtime/metrics"
	"slices"
	"strings"
	"time"

	lua "github.com/yuin/gopher-lua"
)

// limits are those of one script. They are checked between two of its instructions.
type limits struct {
	time time.Duration
	heap uint64 // bytes of the whole program
}

// Argo CD gives a script a second too. A second suffices to take all memory, so the heap has a limit as well; an object
// of 16 MiB is well below it.
var usual = limits{time: time.Second, heap: 512 << 20}

const (
	heapLookEvery = 2 * time.Millisecond
	repeatMax     = 1 << 20 // bytes of a string that one call of `string.rep` makes
	registryMax   = 1 << 20 // values
	callDepthMax  = 200
)

// The words of Argo CD. A script that returns another one has the health Unknown there.
var words = []string{"Healthy", "Progressing", "Degraded", "Suspended", "Missing", "Unknown"}

// run runs a script with the object as `obj`. The script gets the libraries of Argo CD, without what opens files or starts
// programs: `os` has the time only, and `require` finds the libraries that are open.
func run(script *lua.FunctionProto, object map[string]any, within limits) (*health, error) {
	state := lua.NewState(lua.Options{
		SkipOpenLibs:    true,
		RegistryMaxSize: registryMax,
		CallStackSize:   callDepthMax,
	})
	defer state.Close()
	open(state)
	ctx, cancel := within.begin()
	defer cancel(nil)
	state.SetContext(ctx)
	state.SetGlobal("obj", toLua(state, object))
	state.Push(state.NewFunctionFromProto(script))
	if err := state.PCall(0, 1, nil); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return nil, cause
		}
		var failed *lua.ApiError
		if errors.As(err, &failed) {
			return nil, errors.New(failed.Object.String())
		}
		return nil, err
	}
	return answer(state.Get(-1))
}

// begin returns a context that ends when a limit is passed. Its cause says which.
func (l limits) begin() (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(context.Background())
	go func() {
		end := time.NewTimer(l.time)
		defer end.Stop()
		look := time.NewTicker(heapLookEvery)
		defer look.Stop()
		heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		for {
			select {
			case <-ctx.Done():
				return
			case <-end.C:
				cancel(fmt.Errorf("the script took more than %s", l.time))
			case <-look.C:
				if metrics.Read(heap); l.heap < heap[0].Value.Uint64() {
					cancel(fmt.Errorf("the script took more than %d MiB", l.heap>>20))
				}
			}
		}
	}()
	return ctx, cancel
}

func answer(value lua.LValue) (*health, error) {
	if value == lua.LNil {
		return nil, nil
	}
	table, ok := value.(*lua.LTable)
	if !ok {
		return nil, fmt.Errorf("the script returned a %s; it must return a table with status and message", value.Type())
	}
	if isEmpty(table) {
		return nil, nil
	}
	status, err := text(table, "status")
	if err != nil {
		return nil, err
	}
	message, err := text(table, "message")
	if err != nil {
		return nil, err
	}
	if !slices.Contains(words, status) {
		return &health{Status: "Unknown", Message: "Lua returned an invalid health status"}, nil
	}
	return &health{Status: status, Message: message}, nil
}

func isEmpty(table *lua.LTable) bool {
	first, _ := table.Next(lua.LNil)
	return first == lua.LNil
}

func text(table *lua.LTable, key string) (string, error) {
	value := table.RawGetString(key)
	if value == lua.LNil {
		return "", nil
	}
	said, ok := value.(lua.LString)
	if !ok {
		return "", fmt.Errorf("the script returned a %s as %s; it must be a string", value.Type(), key)
	}
	return string(said), nil
}

// toLua converts a value of JSON.
func toLua(state *lua.LState, value any) lua.LValue {
	switch value := value.(type) {
	case bool:
		return lua.LBool(value)
	case float64:
		return lua.LNumber(value)
	case string:
		return lua.LString(value)
	case []any:
		list := state.CreateTable(len(value), 0)
		for _, entry := range value {
			list.Append(toLua(state, entry))
		}
		return list
	case map[string]any:
		table := state.CreateTable(0, len(value))
		for key, entry := range value {
			table.RawSetString(key, toLua(state, entry))
		}
		return table
	}
	return lua.LNil
}

// open opens the libraries, in this order: the others add themselves to the table of packages.
func open(state *lua.LState) {
	for _, library := range []struct {
		name string
		open lua.LGFunction
	}{
		{lua.LoadLibName, lua.OpenPackage},
		{lua.BaseLibName, lua.OpenBase},
		{lua.TabLibName, lua.OpenTable},
		{lua.StringLibName, lua.OpenString},
		{lua.MathLibName, lua.OpenMath},
		{lua.CoroutineLibName, lua.OpenCoroutine},
		{lua.OsLibName, lua.OpenOs},
	} {
		state.Push(state.NewFunction(library.open))
		state.Push(lua.LString(library.name))
		state.Call(1, 0)
	}
	for _, name := range []string{"dofile", "loadfile"} {
		state.SetGlobal(name, lua.LNil)
	}
	// The output is the answer's.
	state.SetGlobal("print", state.NewFunction(func(*lua.LState) int { return 0 }))
	system := state.GetGlobal(lua.OsLibName).(*lua.LTable)
	var others []string
	system.ForEach(func(key, _ lua.LValue) {
		if name := key.String(); name != "time" && name != "date" {
			others = append(others, name)
		}
	})
	for _, name := range others {
		system.RawSetString(name, lua.LNil)
	}
	texts := state.GetGlobal(lua.StringLibName).(*lua.LTable)
	texts.RawSetString("rep", state.NewFunction(repeat))
	// Without loaders, `require` finds what is loaded above, and no file.
	packages := state.GetGlobal(lua.LoadLibName).(*lua.LTable)
	packages.RawSetString("path", lua.LString(""))
	packages.RawSetString("cpath", lua.LString(""))
}

// repeat is `string.rep` with a limit.
func repeat(state *lua.LState) int {
	text, count := state.CheckString(1), max(0, state.CheckInt(2))
	if 0 < len(text) && repeatMax/len(text) < count {
		state.RaiseError("string.rep makes at most %d bytes here", repeatMax)
	}
	state.Push(lua.LString(strings.Repeat(text, count)))
	return 1
}
