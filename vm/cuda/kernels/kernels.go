// Package kernels is the CUDA C of the GPU back end: one file for each family of
// operators, and prelude.cuh, which all of them include. It is compiled by NVRTC for
// the device at hand.
package kernels

import "embed"

//go:embed *.cu *.cuh
var files embed.FS

// Headers returns the files that a source can include, by name.
func Headers() map[string]string {
	list, err := files.ReadDir(".")
	if err != nil {
		panic(err) // the files are part of the program
	}
	headers := map[string]string{}
	for _, f := range list {
		headers[f.Name()] = Text(f.Name())
	}
	return headers
}

// Text returns a file; it panics if there is none of that name.
func Text(name string) string {
	b, err := files.ReadFile(name)
	if err != nil {
		panic(err)
	}
	return string(b)
}
