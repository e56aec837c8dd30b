package memory

import "runtime/debug"

// Settle gives back what the process no longer needs once its work is prepared: Go's free
// memory, and the pages of the program itself, of which the work that follows reads few. A
// page that is needed is mapped again when it is used. It returns when that is done, and is
// for commands, not for libraries: it collects garbage, and costs milliseconds.
func Settle() {
	debug.FreeOSMemory()
	releaseProgram()
}
