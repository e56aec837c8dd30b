package main

import (
	"errors"
	"io"
	"slices"

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

// printError prints the error of a command with --json where its result would have
// been: on standard output, or on standard error if standard output is for a file.
// A command that has printed on standard output has said more already, so nothing
// is added to that.
func printError(stdout *stream, stderr io.Writer, command *kong.Node, status int, err error) {
	text := units.OneLine(err)
	json, out := printsJSON(command)
	if !json || text == "" || stdout.wrote || stdout.failed() != nil {
		return
	}
	if !out {
		stdout = &stream{Writer: stderr, name: "standard error"}
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

// printsJSON reports whether a command has the flag --json, and whether its standard
// output is for the result rather than for a file that it writes.
func printsJSON(command *kong.Node) (json, out bool) {
	values := slices.Clone(command.Positional)
	for _, f := range command.Flags {
		values = append(values, f.Value)
		if f.Name == "json" {
			json = f.Target.Bool()
		}
	}
	return json, !slices.ContainsFunc(values, func(v *kong.Value) bool { return v.Tag.Has("out") && pathsOf(v.Target)[""] == "-" })
}
