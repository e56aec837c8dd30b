//go:build js

package main

import (
	"encoding/json"
	"strings"
	"syscall/js"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/printable"
	"github.com/onnxmem/onnxmem/onnx"
)

// answer is an object, and files beside it.
type answer struct {
	object any
	named  map[string][]any // each a list of parts: bytes, or a span of the input
}

// json returns the object as text.
func (a *answer) json() string {
	text, err := json.Marshal(a.object)
	if err != nil {
		return `{"error": "onnxmem: the answer cannot be written as JSON", "status": 1}`
	}
	return string(text)
}

// files returns the files for JavaScript.
func (a *answer) files() any {
	all := map[string]any{}
	for name, parts := range a.named {
		all[name] = parts
	}
	return all
}

// file adds a file.
func (a *answer) file(name string, b []byte) {
	a.parts(name, []any{bytesOf(b)})
}

func (a *answer) parts(name string, parts []any) {
	if a.named == nil {
		a.named = map[string][]any{}
	}
	a.named[name] = parts
}

// image adds an ONNX file. What it has in common with the input is not copied.
func (a *answer) image(name string, im *onnx.Image) error {
	var parts []any
	err := im.Parts(func(s graph.Span, made []byte) error {
		if made != nil {
			parts = append(parts, bytesOf(made))
		} else {
			parts = append(parts, map[string]any{"off": s.Off, "end": s.End()})
		}
		return nil
	})
	a.parts(name, parts)
	return err
}

// bytesOf copies bytes to JavaScript.
func bytesOf(b []byte) js.Value {
	v := js.Global().Get("Uint8Array").New(len(b))
	js.CopyBytesToJS(v, b)
	return v
}

// lines escapes what a screen might obey in a text of several lines, as the command does.
func lines(text string) string {
	list := strings.Split(text, "\n")
	for i := range list {
		list[i] = printable.Escape(list[i])
	}
	return strings.Join(list, "\n")
}
