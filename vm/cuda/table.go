package cuda

import (
	"crypto/sha256"
	"errors"
	"unsafe"

	"github.com/onnxmem/onnxmem/vm/cuda/driver"
)

// Table is numbers that a launch reads, as a parameter: the address at which they are in
// the device's memory. They are copied there when the launches are made ready, and stay
// as long as the queue. Equal tables are one.
type Table struct{ bytes []byte }

// TableOf makes a table of a list, which must not change before the launches are ready.
func TableOf[T int32 | float32 | float64](list []T) Table {
	var element T
	return Table{unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(list))), len(list)*int(unsafe.Sizeof(element)))}
}

// tables are the tables of a queue.
type tables struct {
	pending []pendingTable
	at      map[[sha256.Size]byte]driver.Ptr
	blocks  []*Block
}

// pendingTable is a parameter whose table is not in the device's memory yet.
type pendingTable struct {
	param *uint64
	table Table
}

// tableAlign is what the address of a table is a multiple of, in bytes.
const tableAlign = 256

// place copies pending tables to the device's memory, and sets the parameters that point
// to them.
func (t *tables) place(d *Device, take func(bytes int64) error) error {
	if t.at == nil {
		t.at = map[[sha256.Size]byte]driver.Ptr{}
	}
	sums := make([][sha256.Size]byte, len(t.pending))
	offsets, total := map[[sha256.Size]byte]int64{}, int64(0)
	for i, p := range t.pending {
		sums[i] = sha256.Sum256(p.table.bytes)
		_, placed := t.at[sums[i]]
		if _, counted := offsets[sums[i]]; !placed && !counted {
			offsets[sums[i]] = total
			total += (int64(len(p.table.bytes)) + tableAlign - 1) &^ (tableAlign - 1)
		}
	}
	if total > 0 {
		if err := take(total); err != nil {
			return err
		}
		b, err := d.Take(total, "tables of kernels")
		if err != nil {
			return err
		}
		t.blocks = append(t.blocks, b)
		for i, p := range t.pending {
			off, is := offsets[sums[i]]
			if !is || t.at[sums[i]] != 0 {
				continue
			}
			at := b.At + driver.Ptr(off)
			if err := driver.UploadNow(at, unsafe.Pointer(unsafe.SliceData(p.table.bytes)), int64(len(p.table.bytes))); err != nil {
				return err
			}
			t.at[sums[i]] = at
		}
	}
	for i, p := range t.pending {
		*p.param = uint64(t.at[sums[i]])
	}
	t.pending = nil
	return nil
}

// bytes is the device memory of the tables.
func (t *tables) bytes() (sum int64) {
	for _, b := range t.blocks {
		sum += b.Bytes
	}
	return sum
}

// free frees it.
func (t *tables) free() error {
	var list []error
	for _, b := range t.blocks {
		list = append(list, b.Free())
	}
	return errors.Join(list...)
}
