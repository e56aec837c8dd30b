package main

import . "github.com/mmcloughlin/avo/build"

// pause lets the other thread of a core run while a worker waits.
func pause() {
	TEXT("pause", NOSPLIT|NOFRAME, "func()")
	Doc("pause waits about 0.1 microseconds.")
	for range 4 {
		PAUSE()
	}
	RET()
}
