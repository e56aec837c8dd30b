//go:build !unix

package mapped

import "os"

func stateOf(f *os.File) (state, error) {
	info, err := f.Stat()
	if err != nil {
		return state{}, err
	}
	return state{size: info.Size(), time: info.ModTime().UnixNano()}, nil
}
