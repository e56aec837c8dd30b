package driver

import "unsafe"

// NewStream creates a stream that does not wait for the default stream.
func NewStream() (Stream, error) {
	const nonBlocking = 1
	var s Stream
	err := check("cuStreamCreate", call(entries.StreamCreate, uintptr(unsafe.Pointer(&s)), nonBlocking))
	return s, err
}

// Destroy frees a stream.
func (s Stream) Destroy() error {
	return check("cuStreamDestroy", call(entries.StreamDestroy_v2, uintptr(s)))
}

// Synchronize waits for the work of a stream.
func (s Stream) Synchronize() error {
	return check("cuStreamSynchronize", call(entries.StreamSynchronize, uintptr(s)))
}

// Wait makes later work of a stream wait for an event.
func (s Stream) Wait(e Event) error {
	return check("cuStreamWaitEvent", call(entries.StreamWaitEvent, uintptr(s), uintptr(e), 0))
}

// NewEvent creates an event. Only events with timing have times (Elapsed).
func NewEvent(timing bool) (Event, error) {
	flags := uintptr(2)
	if timing {
		flags = 0
	}
	var e Event
	err := check("cuEventCreate", call(entries.EventCreate, uintptr(unsafe.Pointer(&e)), flags))
	return e, err
}

// Destroy frees an event.
func (e Event) Destroy() error {
	return check("cuEventDestroy", call(entries.EventDestroy_v2, uintptr(e)))
}

// Record puts an event behind the work of a stream.
func (e Event) Record(s Stream) error {
	return check("cuEventRecord", call(entries.EventRecord, uintptr(e), uintptr(s)))
}

// Synchronize waits for an event.
func (e Event) Synchronize() error {
	return check("cuEventSynchronize", call(entries.EventSynchronize, uintptr(e)))
}

// Elapsed returns the milliseconds between two recorded events.
func Elapsed(from, to Event) (float32, error) {
	var ms float32
	err := check("cuEventElapsedTime", call(entries.EventElapsedTime, uintptr(unsafe.Pointer(&ms)), uintptr(from), uintptr(to)))
	return ms, err
}

// BeginCapture makes the stream record its work instead of doing it, until EndCapture
// on the same thread. Calls of other threads are not affected.
func (s Stream) BeginCapture() error {
	const threadLocal = 1
	return check("cuStreamBeginCapture", call(entries.StreamBeginCapture_v2, uintptr(s), threadLocal))
}

// EndCapture returns the recorded work.
func (s Stream) EndCapture() (Graph, error) {
	var g Graph
	err := check("cuStreamEndCapture", call(entries.StreamEndCapture, uintptr(s), uintptr(unsafe.Pointer(&g))))
	return g, err
}

// Instantiate makes a graph ready to run.
func (g Graph) Instantiate() (Exec, error) {
	var e Exec
	err := check("cuGraphInstantiate", call(entries.GraphInstantiateWithFlags, uintptr(unsafe.Pointer(&e)), uintptr(g), 0))
	return e, err
}

// Destroy frees a graph. What was instantiated of it stays.
func (g Graph) Destroy() error {
	return check("cuGraphDestroy", call(entries.GraphDestroy, uintptr(g)))
}

// Launch runs a graph on a stream.
func (e Exec) Launch(s Stream) error {
	return check("cuGraphLaunch", call(entries.GraphLaunch, uintptr(e), uintptr(s)))
}

// Destroy frees an instantiated graph.
func (e Exec) Destroy() error {
	return check("cuGraphExecDestroy", call(entries.GraphExecDestroy, uintptr(e)))
}
