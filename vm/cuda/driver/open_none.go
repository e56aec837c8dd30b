//go:build nocuda || !(linux || windows) || !(amd64 || arm64)

package driver

import "errors"

var driverNames = []string{""}

var errBuild = errors.New("this build of onnxmem has no CUDA (it has the tag nocuda, or is for a system without CUDA)")

func open(string) (uintptr, error) { return 0, errBuild }

func symbol(uintptr, string) (uintptr, error) { return 0, errBuild }

func call(uintptr, ...uintptr) Status { return statusNotInitialized }
