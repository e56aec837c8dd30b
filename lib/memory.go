//go:build cgo

package main

/*
#include "onnxmem.h"
#include <stdlib.h>
#include <string.h>
*/
import "C"

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/onnxmem/onnxmem/lib/internal/flat"
)

// most is the largest number of elements of an array.
const most = 1 << 31

// mostNodes is the largest number of nodes and of tensors, of which a list needs no array and
// each takes some hundred bytes; mostPools that of pools, each of which goes through all buffers.
const mostNodes, mostPools = 1 << 24, 1 << 10

// usage is an argument that is wrong, whatever the arrays hold.
type usage string

func (u usage) Error() string { return string(u) }

func usagef(format string, args ...any) error { return usage(fmt.Sprintf(format, args...)) }

// array is an array of C as a slice that shares its memory; nil if it is NULL.
func array[To, From any](p *From, n C.size_t) []To {
	if p == nil {
		return nil
	}
	return unsafe.Slice((*To)(unsafe.Pointer(p)), n)
}

// need fails if an array that has elements is NULL, or too long.
func need[From any](what string, p *From, n C.size_t) error {
	switch {
	case n > most:
		return usagef("%s: expected at most %d elements, found %d", what, most, n)
	case p == nil && n > 0:
		return usagef("%s: expected %d elements, found NULL", what, n)
	}
	return nil
}

// total is the last of the places where n lists begin: the length of all.
func total(what string, begin *C.int64_t, n C.size_t) (C.size_t, error) {
	if begin == nil {
		return 0, nil
	}
	x := array[int64](begin, n+1)[n]
	if x < 0 || x > most {
		return 0, usagef("%s: expected lists of 0 to %d elements together, found %d", what, most, x)
	}
	return C.size_t(x), nil
}

// block is memory of C that holds results, for onnxmem_free.
type block struct {
	at   unsafe.Pointer
	used uintptr
}

// newBlock returns a block of some bytes, rounded up for each of some arrays in it.
func newBlock(bytes uintptr, arrays int) (*block, error) {
	p := C.calloc(1, C.size_t(bytes+8*uintptr(arrays+1)))
	if p == nil {
		return nil, errors.New("no memory for the result")
	}
	return &block{at: p}, nil
}

// room returns an array within a block.
func room[T any](b *block, n int) []T {
	p := unsafe.Add(b.at, b.used)
	b.used += (uintptr(n)*unsafe.Sizeof(*new(T)) + 7) &^ 7
	return unsafe.Slice((*T)(p), n)
}

// call runs a function for C, and turns its error, or a fault, into a status and a text.
func call(text *C.char, bytes C.size_t, f func() error) (status C.int) {
	say := func(status C.int, what string) C.int {
		if text != nil && bytes > 0 {
			to := unsafe.Slice((*byte)(unsafe.Pointer(text)), bytes)
			to[copy(to[:bytes-1], what)] = 0
		}
		return status
	}
	// A pointer of the caller that is not mapped is a fault of this call, not the end of the process.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if x := recover(); x != nil {
			status = say(C.ONNXMEM_FAULT, fmt.Sprintf("a fault of onnxmem: %v\n%s", x, debug.Stack()))
		}
	}()
	err := f()
	var wrong usage
	var refused *flat.Refused
	switch {
	case err == nil:
		return say(C.ONNXMEM_OK, "")
	case errors.As(err, &wrong):
		return say(C.ONNXMEM_USAGE, err.Error())
	case errors.As(err, &refused):
		return say(C.ONNXMEM_REFUSED, err.Error())
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return say(C.ONNXMEM_ENDED, "ended before anything was found")
	}
	return say(C.ONNXMEM_FAILED, err.Error())
}

// poll is how often the flag of a caller is looked at.
const poll = 2 * time.Millisecond

// begin returns the context of a call, and a function that ends what it started.
func begin(o *C.onnxmem_options) (context.Context, func(), error) {
	switch {
	case o.effort < 0 || o.effort > 2:
		return nil, nil, usagef("options: effort: expected 0, 1 or 2, found %d", o.effort)
	case o.time_limit < 0:
		return nil, nil, usagef("options: time_limit: expected 0 or more nanoseconds, found %d", o.time_limit)
	}
	ctx, release := context.Background(), func() {}
	if o.time_limit > 0 {
		ctx, release = context.WithTimeout(ctx, time.Duration(o.time_limit))
	}
	if o.cancel == nil {
		return ctx, release, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	flag := (*int32)(unsafe.Pointer(o.cancel))
	if atomic.LoadInt32(flag) != 0 {
		cancel()
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		t := time.NewTicker(poll)
		defer t.Stop()
		for {
			select {
			case <-stop:
				return
			case <-t.C:
				if atomic.LoadInt32(flag) != 0 {
					cancel()
					return
				}
			}
		}
	}()
	return ctx, func() {
		close(stop)
		<-stopped // the flag is the caller's again
		cancel()
		release()
	}, nil
}

// truth is a bool as C has it.
func truth(b bool) C.int32_t {
	if b {
		return 1
	}
	return 0
}
