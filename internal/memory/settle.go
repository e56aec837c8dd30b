package memory

import (
	"runtime"
	"runtime/debug"
	"sync/atomic"
)

// Settle gives back what the process no longer needs once its work is prepared: Go's free
// memory, and the pages of the program itself, of which the work that follows reads few. A
// page that is needed is mapped again when it is used. It returns when that is done, and is
// for commands, not for libraries: it collects garbage, and costs milliseconds.
func Settle() {
	debug.FreeOSMemory()
	DropProgram()
}

// DropProgram gives back the pages of the program itself, before other parts of it run than so
// far. A page that is needed is mapped again when it is used. It is for commands.
func DropProgram() { releaseProgram() }

// Prepares gives back the pages of the program itself now and after each garbage collection, until
// the returned function is called: what prepares the work runs through much of the program, each part
// once, while the heap grows. It is for commands.
func Prepares() (end func()) {
	var over atomic.Bool
	var next func()
	next = func() {
		// The next collection finds this object unused. It has a pointer, since small objects
		// without one are freed together with others.
		object := &struct{ self *func() }{&next}
		runtime.AddCleanup(object, func(struct{}) {
			if !over.Load() {
				DropProgram()
				next()
			}
		}, struct{}{})
	}
	DropProgram()
	next()
	return func() { over.Store(true) }
}
