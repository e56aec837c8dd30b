//go:build nocuda || !(linux || darwin) || !(amd64 || arm64)

package solvers

const opensLibraries = false

type library struct{ path string }

func openLibrary(string) (*library, error) { return nil, errBuild }

func absent(error) bool { return false }

func (*library) bind(map[string]any) error { return errBuild }

func callback(any) uintptr { return 0 }
