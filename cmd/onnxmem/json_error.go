package main

import (
	"errors"

	"github.com/alecthomas/kong"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/units"
)

// errorJSON is the object that --json prints for a command that fails without a
// result.
type errorJSON struct {
	Error  string `json:"error"`            // the line on standard error, without the program's name
	Status int    `json:"status"`           // the exit status
	File   string `json:"file,omitempty"`   // as the user named it
	Node   string `json:"node,omitempty"`   // as the line names it: name and operator, else index
	Tensor string `json:"tensor,omitempty"` // in full
	Byte   *int64 `json:"byte,omitempty"`   // offset in the file
}

// printError prints the error of a command with --json. A command that has
// printed on standard output has said more already, so nothing is added to that.
func printError(stdout *stream, status int, err error) {
	text := units.OneLine(err)
	if text == "" || stdout.wrote || stdout.failed() != nil {
		return
	}
	line := errorJSON{Error: text, Status: status}
	if at := (*graph.Error)(nil); errors.As(err, &at) {
		line.File, line.Node, line.Tensor = at.File, at.Node, at.Tensor
		if at.Offset >= 0 {
			line.Byte = &at.Offset
		}
	}
	writeJSON(people{stdout}, line) // the stream keeps its error
}

// printsJSON reports whether a command prints JSON on standard output: with
// --json, unless standard output is for a file that it writes.
func printsJSON(command *kong.Node) bool {
	asked := false
	values := command.Positional
	for _, f := range command.Flags {
		values = append(values[:len(values):len(values)], f.Value)
		if f.Name == "json" {
			asked = f.Target.Bool()
		}
	}
	for _, v := range values {
		if v.Tag.Has("out") && pathsOf(v.Target)[""] == "-" {
			return false
		}
	}
	return asked
}
