// Memory-pass is a pass of a compiler, in Go; cpp and rust have the same one over libonnxmem.
// It reads a list of memref.alloc and memref.dealloc in the manner of MLIR, one operation in a
// line, and writes it with one allocation, of which the others are views:
//
//	go run ./examples/memory-pass <four.mlir
package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/onnxmem/onnxmem/alloc"
)

const alignment = 64

func main() {
	if len(os.Args) > 1 {
		log.Fatal("expected no arguments, and the list on standard input")
	}
	if err := run(context.Background(), os.Stdin, os.Stdout, os.Stderr); err != nil {
		log.Fatal(err)
	}
}

// bytes is the size of a memref of integers or floats, such as 64x16xf32.
func bytes(shape string) (int64, error) {
	parts := strings.Split(shape, "x")
	element := parts[len(parts)-1]
	bits, err := strconv.ParseInt(strings.TrimLeft(element, "bfi"), 10, 64)
	for _, d := range parts[:len(parts)-1] {
		var n int64
		if err == nil {
			n, err = strconv.ParseInt(d, 10, 64)
			bits *= n
		}
	}
	return (bits + 7) / 8, err
}

func run(ctx context.Context, in io.Reader, out, messages io.Writer) error {
	var lines []string
	var buffers []alloc.Buffer
	of := map[string]int{}    // by value: the buffer
	makes := map[int]int{}    // by line: the buffer that it allocates
	deleted := map[int]bool{} // lines that deallocate
	s := bufio.NewScanner(in)
	s.Buffer(nil, 1<<20)
	for ; s.Scan(); lines = append(lines, s.Text()) {
		step, words := len(lines), strings.Fields(s.Text())
		switch {
		case len(words) > 2 && words[2] == "memref.alloc()":
			_, shape, _ := strings.Cut(words[len(words)-1], "<")
			size, err := bytes(strings.TrimSuffix(shape, ">"))
			if err != nil {
				return fmt.Errorf("line %d: %w", step+1, err)
			}
			of[words[0]], makes[step] = len(buffers), len(buffers)
			buffers = append(buffers, alloc.Buffer{ID: words[0], Size: size, First: step, Last: step})
		case len(words) > 1 && words[0] == "memref.dealloc":
			i, known := of[words[1]]
			if !known {
				return fmt.Errorf("line %d: %s is not allocated", step+1, words[1])
			}
			buffers[i].Last, deleted[step] = step-1, true
		}
	}
	began := time.Now()
	placed, err := alloc.Solve(ctx, alloc.Problem{Buffers: buffers, Alignment: alignment}, alloc.Options{})
	if err != nil {
		return err
	}
	fmt.Fprintf(messages, "%d buffers, arena %d bytes, none is below %d, %.2f ms\n", len(buffers), placed.Arena, placed.LowerBound, float64(time.Since(began).Nanoseconds())/1e6)
	arena := fmt.Sprintf("memref<%dxi8>", placed.Arena)
	begun := false
	for step, line := range lines {
		i, allocates := makes[step]
		switch {
		case allocates && !begun:
			fmt.Fprintf(out, "  %%arena = memref.alloc() {alignment = %d : i64} : %s\n", alignment, arena)
			begun = true
			fallthrough
		case allocates:
			fmt.Fprintf(out, "  %s = memref.view %%arena[%d][] : %s to %s\n", buffers[i].ID, placed.Offsets[i], arena, line[strings.LastIndex(line, "memref<"):])
		case !deleted[step]:
			fmt.Fprintln(out, line)
		}
	}
	return s.Err()
}
