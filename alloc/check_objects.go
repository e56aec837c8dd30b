package alloc

import "fmt"

// CheckObjects returns nil if the assignment is one of the problem: each buffer
// that has a size lies in an object, no two in one object are live together,
// each object is as large as its largest buffer, and the total is their sum.
// Else it names the first fault. It compares each buffer with each other and
// shares nothing with the strategies. O(n²).
func (p Problem) CheckObjects(o Objects) error {
	if err := p.Validate(); err != nil {
		return err
	}
	if len(o.Object) != len(p.Buffers) {
		return fmt.Errorf("objects: expected one for each of %d buffers, found %d", len(p.Buffers), len(o.Object))
	}
	largest := make([]int64, len(o.Sizes))
	for i, object := range o.Object {
		size := p.size(i)
		if size == 0 {
			if object != -1 {
				return fmt.Errorf("%s: object: expected -1 for 0 bytes, found %d", p.name(i), object)
			}
			continue
		}
		if object < 0 || object >= len(o.Sizes) {
			return fmt.Errorf("%s: object: expected 0 to %d, found %d", p.name(i), len(o.Sizes)-1, object)
		}
		largest[object] = max(largest[object], size)
		for j := range i {
			if o.Object[j] == object && p.Buffers[j].First <= p.Buffers[i].Last && p.Buffers[i].First <= p.Buffers[j].Last {
				return fmt.Errorf("%s and %s are both in object %d at step %d", p.name(j), p.name(i), object, max(p.Buffers[i].First, p.Buffers[j].First))
			}
		}
	}
	var total int64
	for object, size := range o.Sizes {
		if size != largest[object] {
			return fmt.Errorf("object %d: expected %d bytes, its largest buffer, found %d", object, largest[object], size)
		}
		total += size
	}
	if o.Total != total {
		return fmt.Errorf("objects: expected a total of %d bytes, found %d", total, o.Total)
	}
	return nil
}
