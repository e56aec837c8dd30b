//go:build !js

// Command wasm is onnxmem's planner for browsers: `make web` builds it.
package main

import "log"

func main() { log.Fatal("this program is for browsers: make web builds it") }
