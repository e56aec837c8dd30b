package work

//go:generate go run -C ../asm . -pkg work

// pause waits about 0.1 microseconds and leaves the core to its other thread.
func pause()
