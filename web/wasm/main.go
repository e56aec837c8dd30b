//go:build js

// Command wasm is onnxmem's planner for JavaScript: the page and the npm package run it in a
// worker. It plans as the command does, from the same packages, and does nothing else: it opens
// no file and no connection.
//
//	main.go     the function that JavaScript calls
//	calls.go    what it can be asked for, as a table
//	flags.go    the options, which are those of the command
//	session.go  the model that was planned last
//	source.go   a file of JavaScript, read by parts
//	answer.go   results, and the files that belong to them
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"syscall/js"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/bug"
	"github.com/onnxmem/onnxmem/internal/files"
	"github.com/onnxmem/onnxmem/internal/optimize"
	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/passes"
)

// version is set when the program is built.
var version = "(devel)"

// tool is the name of the planner in plans: that of the command, which writes the same ones.
func tool() string { return "onnxmem " + version }

// request is what JavaScript asks for.
type request struct {
	Call string           `json:"call"`
	Name string           `json:"name"` // of the input, for messages and for plans
	Out  string           `json:"out"`  // of the planned model, for plans
	Args []string         `json:"args"` // flags of the command
	Dims map[string]int64 `json:"dims"` // of the call at
}

// failure is the answer to what cannot be done.
type failure struct {
	Error  string `json:"error"`  // as the command prints it
	Status int    `json:"status"` // the exit status that the command would have
}

// Main offers the function and waits for calls. Each call has a goroutine of its own: while one
// computes, JavaScript's events wait.
func main() {
	s := &session{}
	js.Global().Set("onnxmemCall", js.FuncOf(func(_ js.Value, args []js.Value) any {
		text, source, progress, done := args[0].String(), args[1], args[2], args[3]
		go func() {
			a := s.answer(text, source, func(work, note string) { progress.Invoke(work, note) })
			done.Invoke(a.json(), a.files())
		}()
		return nil
	}))
	js.Global().Get("onnxmemReady").Invoke()
	select {}
}

// answer carries out a request. A panic, which is a bug, fails it.
func (s *session) answer(text string, source js.Value, progress func(work, note string)) (a *answer) {
	defer func() {
		if r := recover(); r != nil {
			b := bug.Recovered("", r)
			println(string(b.Stack))
			a = failed(b)
		}
	}()
	var r request
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return failed(err)
	}
	call, known := calls[r.Call]
	if !known {
		return failed(fmt.Errorf("call %q is unknown", r.Call))
	}
	a = &answer{}
	s.progress = progress
	if err := call(s, &r, source, a); err != nil {
		return failed(err)
	}
	return a
}

// failed is the answer to a request that cannot be carried out.
func failed(err error) *answer {
	var (
		refused  *graph.Error
		option   *passes.OptionError
		usage    *optimize.UsageError
		conflict *files.Conflict
		b        *bug.Error
	)
	status, text := 1, "onnxmem: "+units.OneLine(err)
	switch {
	case errors.As(err, &b):
	case errors.As(err, &option), errors.As(err, &usage), errors.As(err, &conflict):
		status = 2
	case errors.As(err, &refused):
		status, text = 3, units.OneLine(err)
	}
	return &answer{object: failure{text, status}}
}
