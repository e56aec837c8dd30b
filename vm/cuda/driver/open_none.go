//go:build nocuda || !(linux || windows) || !(amd64 || arm64)

package driver

import "errors"

const howToGet = "on Linux and Windows, `go install github.com/onnxmem/onnxmem/cmd/onnxmem@latest` builds one that has it"

var driverNames = []string{""}

var errBuild = errors.New("this build of onnxmem has no CUDA (it has the tag nocuda, or is for a system without CUDA)")

func open(string) (uintptr, error) { return 0, errBuild }

func absent(error) bool { return false }

func symbol(uintptr, string) (uintptr, error) { return 0, errBuild }

func call(uintptr, ...uintptr) Status { return statusNotInitialized }
