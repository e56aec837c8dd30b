package memory

import "os"

func process() Use {
	exe, _ := os.Readlink("/proc/self/exe")
	return linuxProcess(os.DirFS("/"), exe)
}
