package alloc

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	gocmp "github.com/google/go-cmp/cmp"
)

func at(x int64) *int64 { return &x }

// TestReadCSV: each form that is accepted, and each error.
func TestReadCSV(t *testing.T) {
	for _, c := range []struct {
		name, csv string
		want      []Buffer
		err       string
	}{
		{"half-open", "id,lower,upper,size\na,0,2,4\n", []Buffer{{ID: "a", Size: 4, First: 0, Last: 1}}, ""},
		{"inclusive", "buffer_id,start,end,size\na,0,2,4", []Buffer{{ID: "a", Size: 4, First: 0, Last: 2}}, ""},
		{"columns in any order, blanks, carriage returns", "size, begin, upper, buffer\r\n4, -3, 2, a\r\n\r\n", []Buffer{{ID: "a", Size: 4, First: -3, Last: 1}}, ""},
		{"MiniMalloc's own", "id,lower,upper,size,alignment,hint,gaps\n0,5,10,15,1,0,\n1,6,12,18,2,-1,7-8 9-10@1:17\n", []Buffer{
			{ID: "0", First: 5, Last: 9, Size: 15, Align: 1, Hint: at(0)},
			{ID: "1", First: 6, Last: 11, Size: 18, Align: 2, Gaps: []Gap{{First: 7, Last: 7}, {First: 9, Last: 9, From: 1, To: 17}}},
		}, ""},
		{"inclusive gaps", "id,start,end,size,gaps\n1,6,12,18,7-8\n", []Buffer{{ID: "1", First: 6, Last: 12, Size: 18, Gaps: []Gap{{First: 7, Last: 8}}}}, ""},
		{"fixed offsets", "id,lower,upper,size,offset\na,0,2,4,8\nb,0,2,4,\n", []Buffer{{ID: "a", Last: 1, Size: 4, Fixed: at(8)}, {ID: "b", Last: 1, Size: 4}}, ""},
		{"apostrophes before formulas", "id,lower,upper,size\n'=a,0,2,4\n''-b,0,2,4\n'c,0,2,4\n-1,0,2,4\n", []Buffer{
			{ID: "=a", Last: 1, Size: 4}, {ID: "'-b", Last: 1, Size: 4}, {ID: "'c", Last: 1, Size: 4}, {ID: "-1", Last: 1, Size: 4},
		}, ""},
		{"no buffers", "id,lower,upper,size\n", nil, ""},
		{"nothing", "", nil, "expected a header such as id,lower,upper,size, found nothing"},
		{"no size", "id,lower,upper\n", nil, `line 1: expected a column "size", found "id,lower,upper"`},
		{"an unknown column", "id,lower,upper,size,color\n", nil, `line 1: column "color": unknown: expected id, lower, upper, size, alignment, hint, gaps or offset`},
		{"two columns with one meaning", "id,lower,upper,size,end\n", nil, `line 1: column "end": duplicate column for upper`},
		{"a field missing", "id,lower,upper,size\na,0,2\n", nil, "line 2: expected 4 fields, found 3"},
		{"no number", "id,lower,upper,size\na,0,x,4\n", nil, `line 2: column "upper": expected an integer of at least -9223372036854775807, found "x"`},
		{"a negative size", "id,lower,upper,size\na,0,1,-4\n", nil, `line 2: column "size": expected an integer of at least 0, found "-4"`},
		{"an empty lifetime", "id,lower,upper,size\na,2,2,4\n", nil, `line 2: column "upper": expected a lifetime of at least one step from 2 on, found 2`},
		{"no gap", "id,lower,upper,size,gaps\na,2,5,4,3\n", nil, `line 2: column "gaps": expected steps and bytes such as 9-10@1:17, found "3"`},
		{"a gap outside", "id,lower,upper,size,gaps\na,2,5,4,3-6\n", nil, `buffer 0 "a": gap 0: expected steps within 2-4, found 3-5`},
		{"fixed offsets that overlap", "id,lower,upper,size,offset\na,0,2,4,0\nb,1,2,4,2\n", nil, `buffer 0 "a" and buffer 1 "b": fixed offsets 0 and 2: the buffers overlap at step 1`},
		{"an empty line within", "id,lower,upper,size\na,0,2,4\n\nb,0,2,4\n", nil, "line 3: expected a buffer, found an empty line"},
	} {
		p, err := ReadCSV(strings.NewReader(c.csv))
		if message(err) != c.err {
			t.Errorf("%s: got error %v, want %q", c.name, err, c.err)
		}
		if typed := new(CSVError); err != nil && !errors.As(err, &typed) {
			t.Errorf("%s: %T, want a *CSVError", c.name, err)
		}
		if d := gocmp.Diff(c.want, p.Buffers); d != "" {
			t.Errorf("%s: want - got +:\n%s", c.name, d)
		}
	}
}

// TestWriteCSV: buffers are written as they were read, in MiniMalloc's dialect.
func TestWriteCSV(t *testing.T) {
	for _, text := range []string{
		"id,lower,upper,size\na,0,2,4\n",
		"id,lower,upper,size\n",
		"id,lower,upper,size,alignment,hint,gaps\n0,5,10,15,1,0,\n1,6,12,18,2,,7-8 9-10@1:17\n",
		"id,lower,upper,size,offset\na,0,2,4,8\nb,0,2,4,\n",
		"id,lower,upper,size\n'=1+1,0,2,4\n'@a,0,2,4\n''+a,0,2,4\n-1,0,2,4\n'a',0,2,4\n",
	} {
		p, err := ReadCSV(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		var got bytes.Buffer
		if err := p.WriteCSV(&got, nil); err != nil || got.String() != text {
			t.Errorf("got %q, %v, want %q", got.String(), err, text)
		}
	}
	var got bytes.Buffer
	p := parse(t, picture)
	a := GreedyBySize(p)
	if err := p.WriteCSV(&got, &a); err != nil {
		t.Fatal(err)
	}
	want := "id,lower,upper,size,offset\na,0,2,4,0\nb,0,2,2,4\nc,1,3,1,6\nd,2,4,4,0\n"
	if got.String() != want {
		t.Errorf("got %q, want %q", got.String(), want)
	}
	p.Buffers[0].ID = "a,b"
	if err := p.WriteCSV(&got, nil); err == nil {
		t.Error("an ID with a comma was written")
	}
}

// TestReadCSVFails: if reading fails within a line, the error is that failure, not the
// rest of the line.
func TestReadCSVFails(t *testing.T) {
	broken := errors.New("disk on fire")
	r := io.MultiReader(strings.NewReader("id,lower,upper,size\na,0,2,4\nb,0"), iotest.ErrReader(broken))
	if _, err := ReadCSV(r); !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
	_, err := ReadCSV(strings.NewReader("id,lower,upper,size\na,0,2,4\nb\rc,0,2,4\n"))
	if want := "line 3: column \"id\": expected an ID without commas, line ends and blanks around it, found \"b\\rc\""; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestDialect: a file is written with its own columns, names and inclusive ends, and
// missing columns come last.
func TestDialect(t *testing.T) {
	for _, c := range []struct{ name, csv, want string }{
		{"names and order", "size,begin,upper,buffer\n4,0,2,a\n2,0,2,b\n", "size,begin,upper,buffer,offset\n4,0,2,a,0\n2,0,2,b,4\n"},
		{"inclusive, gaps too", "buffer_id,start,end,size,gaps\na,0,9,4,7-8 9-9@1:3\n", "buffer_id,start,end,size,gaps,offset\na,0,9,4,7-8 9-9@1:3,0\n"},
		{"an offset column in its place", "id,offset,lower,upper,size\na,8,0,2,4\nb,,0,2,8\n", "id,offset,lower,upper,size\na,8,0,2,4\nb,0,0,2,8\n"},
		{"blanks and carriage returns are removed", " id , start, end , size\r\na, 0, 1, 4\r\n", "id,start,end,size,offset\na,0,1,4,0\n"},
		{"the largest step", "id,start,end,size\na,0,9223372036854775807,4\n", "id,start,end,size,offset\na,0,9223372036854775807,4,0\n"},
	} {
		p, d, err := ReadDialect(strings.NewReader(c.csv))
		if err != nil {
			t.Fatal(err)
		}
		a := GreedyBySize(p)
		var got bytes.Buffer
		if err := d.Write(&got, p, &a); err != nil || got.String() != c.want {
			t.Errorf("%s: got %q, %v, want %q", c.name, got.String(), err, c.want)
		}
	}
}

// FuzzReadCSV: buffers that are read, written and read again are the same.
func FuzzReadCSV(f *testing.F) {
	f.Add("id,lower,upper,size\na,0,2,4\n")
	f.Add("buffer,start,end,size,offset,hint\na,0,2,4,4,3\nb,1,1,4,,-1\n")
	f.Add("id,lower,upper,size,alignment,hint,gaps\n0,5,10,15,1,0,\n1,6,12,18,2,-1,7-8 9-10@1:17\n")
	f.Add("buffer,start,end,size,offset,hint\n0\r0,0,0,0,,\n")
	f.Add("id,lower,upper,size\n=a,0,1,1\n'=a,0,1,1\n''\t=a,0,1,1\n")
	f.Add("\ufeffid,begin,upper,size,gaps\n,-5,10,15,-4--3@0:0\n")
	f.Fuzz(func(t *testing.T, text string) {
		p, d, err := ReadDialect(strings.NewReader(text))
		if err != nil {
			return
		}
		var same bytes.Buffer
		if err := d.Write(&same, p, nil); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		read, err := ReadCSV(bytes.NewReader(same.Bytes()))
		if err != nil || len(read.Buffers) != len(p.Buffers) {
			t.Fatalf("%q: written as %q: %v", text, same.String(), err)
		}
		for i := range read.Buffers {
			if id := p.Buffers[i].ID; id != "" && read.Buffers[i].ID != id {
				t.Fatalf("%q: ID %q is %q after it was written as %q", text, id, read.Buffers[i].ID, same.String())
			}
		}
		var out bytes.Buffer
		if err := p.WriteCSV(&out, nil); err != nil {
			return // a last step that half-open lifetimes cannot represent
		}
		again, err := ReadCSV(bytes.NewReader(out.Bytes()))
		if err != nil {
			t.Fatalf("%q: written as %q: %v", text, out.String(), err)
		}
		var twice bytes.Buffer
		if err := again.WriteCSV(&twice, nil); err != nil || twice.String() != out.String() {
			t.Fatalf("%q: written as %q, then as %q: %v", text, out.String(), twice.String(), err)
		}
	})
}
