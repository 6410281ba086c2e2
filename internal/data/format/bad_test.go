package format

import (
	"io"
	"strings"
	"testing"
)

// TestBadRecords: with bad=skip records that have not the form of their format are left out and counted, and all
// others are as without it. Without it the first of them is an error.
func TestBadRecords(t *testing.T) {
	for _, c := range []struct {
		spec, text, want string
		bad              int
		err              string // without bad=skip
	}{
		{"csv,columns=b", "a,b\n1,2\n3\n4,5,6\n\n7,8\n", "2\n8\n", 2, "record on line 3: it has 1 field"},
		{"csv,columns=b", "a,b\n1,x\"y\n3,4\"z\n5,6\n", "6\n", 2, "has a quote and does not begin with one"},
		// Quotes that open nothing take no other line with them.
		{"csv,columns=b", "a,b\n1,x\"y\n3,4\n\"5\",\"6\n7\"\n\"8\"9,\"\n10,11\n12,\"13\n", "4\n6\\n7\n11\n", 3, "has a quote and does not begin with one"},
		{"csv,columns=b", "a,b\n1,\"x\n3,4\n5,6\n", "", 1, "no closing quote"},                    // it takes the rest of the file with it
		{"csv,lines=single,columns=b", "a,b\n1,\"x\n3,4\n5,6\n", "4\n6\n", 1, "no closing quote"}, // only its line
		{"csv,lines=single,columns=b", "a,b\n1,\"x,\"\"y\"\n3\n", "x,\"y\n", 1, "it has 1 field"},
		{"csv,header=no,columns=2", "1,2\n3\n4,5\n", "2\n5\n", 1, "it has 1 field"},
		{"json", "{\"a\":1}\n{\"a\":\n[1]\nnull\n{\"a\":2}\n", "{\"a\":1}\n{\"a\":2}\n", 3, "line 2: it is no JSON object"},
		// A backslash and the text ufffd are no escape, and do not hide half of a surrogate pair.
		{"json,columns=a", "{\"a\":\"\\\\ufffd \\ud800\"}\n{\"a\":\"\\\\ufffd \\\\\\ufffd \\ufffd\"}\n", "\\\\ufffd \\\\\ufffd \ufffd\n", 1, "half of a surrogate pair"},
		{"json,columns=a,b", "{\"a\":1,\"b\":2}\n{\"a\":3,\"b\":\"\xff\"}\n{\"b\":5}\n", "1\t2\n\\N\t5\n", 1, "its text is not UTF-8"},
	} {
		options, columns, _ := strings.Cut(c.spec, ",columns=")
		for _, skip := range []bool{false, true} {
			text := options
			if skip {
				text += ",bad=skip"
			}
			if columns != "" {
				text += ",columns=" + columns
			}
			s, err := Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			bad := 0
			r, err := Open(&Source{Text: strings.NewReader(c.text), To: int64(len(c.text)), Size: int64(len(c.text)), CountBad: func() { bad++ }}, s)
			if err != nil {
				t.Errorf("%s, %q: %v", text, c.text, err)
				continue
			}
			got, err := io.ReadAll(r)
			switch {
			case !skip && (err == nil || !strings.Contains(err.Error(), c.err) || bad != 0):
				t.Errorf("%s, %q: %v, want %s; %d counted", text, c.text, err, c.err, bad)
			case skip && (err != nil || string(got) != c.want || bad != c.bad):
				t.Errorf("%s, %q: %q, %d bad, %v; want %q, %d", text, c.text, got, bad, err, c.want, c.bad)
			}
		}
	}
}

// TestBadKept: bad=skip hides neither a wrong header nor a missing column that the user has forbidden, nor a
// record that is too long to be read to its end.
func TestBadKept(t *testing.T) {
	for text, c := range map[string][2]string{
		"csv,bad=skip,columns=c":                {"a,b\n1,2\n", "there is no column"},
		"csv,bad=skip":                          {"a,\"b\n1,2\n", "the first line"},
		"json,bad=skip,missing=error,columns=b": {"{\"a\":1}\n", "no column b"},
		"csv,bad=skip,header=no":                {"1,2\n3,\"" + strings.Repeat("xxxxxxx\n", maxRecord/8+2), "longer than 64 MiB"},
		"csv":                                   {"\xff\xfea\x00", "iconv"},
		"json":                                  {"\xfe\xff\x00{", "iconv"},
	} {
		s, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		r, err := Open(&Source{Text: strings.NewReader(c[0]), Size: int64(len(c[0])), To: int64(len(c[0]))}, s)
		if err == nil {
			_, err = io.ReadAll(r)
		}
		if err == nil || !strings.Contains(err.Error(), c[1]) {
			t.Errorf("%s, %.20q: %v, want %s", text, c[0], err, c[1])
		}
	}
}
