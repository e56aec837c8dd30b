package work

// pause waits about 0.1 microseconds and leaves the core to its other thread.
//
//go:noescape
func pause()
