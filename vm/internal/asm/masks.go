package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Without AVX-512, a lane of a mask is a number of which the highest bit counts. Masks in
// memory have a bit for each of sixteen lanes. They are broadcast, and shifted in each lane
// so that its bit is the highest.

// laneShifts loads the distances for two halves of sixteen lanes.
func laneShifts(halves [2]VecPhysical) {
	m := table("laneShifts", func() {
		for lane := range 16 {
			DATA(4*lane, U32(uint32(31-lane)))
		}
	})
	for i, y := range halves {
		at := m
		at.Disp = 32 * i
		VMOVDQU(at, y)
	}
}

// table is constant data of a file: data writes it where it is needed first.
func table(name string, data func()) Mem {
	m, ok := tables[name]
	if !ok {
		m = GLOBL(name, RODATA|NOPTR)
		data()
		tables[name] = m
	}
	return m
}

var tables = map[string]Mem{}

// lanesOf makes the masks of both halves from sixteen bits, in memory or in a register.
func lanesOf(bits Op, shifts, masks [2]VecPhysical) {
	VPBROADCASTW(bits, masks[1])
	for i, shift := range shifts {
		VPSLLVD(shift, masks[1], masks[i])
	}
}

// everyOther leaves every other lane of a and b in a, in two halves that are not in order
// yet; inOrder puts them in order.
func everyOther(b, a VecPhysical) { VSHUFPS(Imm(0x88), b, a, a) }

func inOrder(y VecPhysical) { VPERMPD(Imm(0xd8), y, y) }
