package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/reg"
)

// maker reads a word of the name of the processor's maker.
func maker() {
	TEXT("maker", NOSPLIT|NOFRAME, "func() uint32")
	Doc("maker returns the first four letters of the name of the processor's maker, the first one lowest.")
	XORL(EAX, EAX)
	XORL(ECX, ECX)
	CPUID()
	Store(EBX, ReturnIndex(0))
	RET()
}
