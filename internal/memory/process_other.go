//go:build !linux && !darwin && !dragonfly && !freebsd && !netbsd && !openbsd && !windows

package memory

func process() Use { return Use{} }
