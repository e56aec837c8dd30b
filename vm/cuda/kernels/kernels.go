// Package kernels is the CUDA C of the GPU back end: one file for each family of
// operators, and prelude.cuh, which all of them include. It is compiled by NVRTC for
// the device at hand.
package kernels

import (
	"embed"
	"regexp"
)

//go:embed *.cu *.cuh
var files embed.FS

// Headers returns the headers that a program includes, and those that they include, by
// name: what a compiled program depends on beside its own text.
func Headers(program string) map[string]string {
	headers := map[string]string{}
	for rest := []string{program}; len(rest) > 0; {
		text := rest[len(rest)-1]
		rest = rest[:len(rest)-1]
		for _, m := range include.FindAllStringSubmatch(text, -1) {
			if _, has := headers[m[1]]; !has {
				headers[m[1]] = Text(m[1])
				rest = append(rest, headers[m[1]])
			}
		}
	}
	return headers
}

// include is a line that includes a header. None of ours hides in a comment or behind a
// condition: a header too many would cost nothing but a compilation.
var include = regexp.MustCompile(`(?m)^#include "([^"]*)"`)

// Text returns a file; it panics if there is none of that name.
func Text(name string) string {
	b, err := files.ReadFile(name)
	if err != nil {
		panic(err)
	}
	return string(b)
}
