package gobs_test

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/slotwise/slotwise/mapreduce"
	"github.com/slotwise/slotwise/mapreduce/gobs"
)

type node struct {
	Name  string
	Rank  float64
	Links []string
	Inner struct{ A, B int }
	Next  *node
}

// Decoded values equal the encoded ones, in any order and from several goroutines, and equal ones have equal encodings.
func TestCode(t *testing.T) {
	c := gobs.Code[node]()
	if use, err := c.(mapreduce.Limited).Limits(); use != mapreduce.KeyGrouped || err != nil {
		t.Fatal(use, err)
	}
	nodes := rapid.Custom(func(t *rapid.T) (n node) {
		n.Name, n.Rank = rapid.String().Draw(t, "name"), rapid.Float64().Draw(t, "rank")
		n.Inner.A = rapid.Int().Draw(t, "a")
		for range rapid.IntRange(0, 200).Draw(t, "links") {
			n.Links = append(n.Links, "x")
		}
		if rapid.Bool().Draw(t, "next") {
			n.Next = &node{Name: "next"}
		}
		return n
	})
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			rapid.Check(t, func(t *rapid.T) {
				want := nodes.Draw(t, "node")
				code := c.Append([]byte("before"), want)[len("before"):]
				got, err := c.Decode(code)
				if err != nil || !reflect.DeepEqual(got, want) {
					t.Fatalf("%+v comes back as %+v, %v", want, got, err)
				}
				if !bytes.Equal(code, c.Append(nil, got)) {
					t.Fatalf("%+v has two encodings", want)
				}
			})
		})
	}
	all.Wait()
	if n := len(c.Append(nil, node{})); n > 3 {
		t.Errorf("a zero value takes %d bytes", n)
	}
	if got, err := gobs.Code[int]().Decode(gobs.Code[int]().Append(nil, 7)); got != 7 || err != nil {
		t.Errorf("a basic type: %v, %v", got, err)
	}
}

// Another process may have numbered its types otherwise. An encoding must have no number in it.
func TestCodeInAnotherProcess(t *testing.T) {
	if os.Getenv("GOBS_DECODE") != "" {
		type other struct{ X, Y, Z map[string][]int }
		gobs.Code[other]() // takes the next numbers
		b, err := io.ReadAll(os.Stdin)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := gobs.Code[node]().Decode(b); err != nil || got.Name != "here" || got.Next.Rank != 2 {
			t.Fatalf("%+v, %v", got, err)
		}
		return
	}
	code := gobs.Code[node]().Append(nil, node{Name: "here", Next: &node{Rank: 2}})
	child := command(t, code)
	if out, err := child.CombinedOutput(); err != nil || !strings.Contains(string(out), "PASS") {
		t.Errorf("%v\n%s", err, out)
	}
}

// Bytes that are no encoding are errors, and values after them are decoded.
func TestBadBytes(t *testing.T) {
	c := gobs.Code[node]()
	good := c.Append(nil, node{Name: "a", Links: []string{"b"}})
	for _, bad := range [][]byte{good[:len(good)-4], {0xff}, []byte("\x05hello")} {
		if v, err := c.Decode(bad); err == nil {
			t.Errorf("%q was decoded as %+v", bad, v)
		}
		if v, err := c.Decode(good); err != nil || v.Name != "a" {
			t.Errorf("after %q: %+v, %v", bad, v, err)
		}
	}
}

// Types with an interface, and pointers, are refused; types with maps cannot be keys.
func TestLimits(t *testing.T) {
	for _, c := range []struct {
		codec any
		use   mapreduce.KeyUse
		want  string
	}{
		{gobs.Code[*node](), 0, "it is a pointer"},
		{gobs.Code[struct{ A []any }](), 0, "it contains the interface interface {}"},
		{gobs.Code[struct{ A map[string]int }](), mapreduce.KeyNever, ""},
		{gobs.Code[struct{ A time.Time }](), mapreduce.KeyNever, ""},
	} {
		use, err := c.codec.(mapreduce.Limited).Limits()
		if c.want == "" && (err != nil || use != c.use) || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%T: %v, %v", c.codec, use, err)
		}
	}
	defer func() {
		if err, _ := recover().(error); err == nil || !strings.Contains(err.Error(), "has no encoding") {
			t.Errorf("a nil pointer in a slice: %v", err)
		}
	}()
	gobs.Code[struct{ A []*node }]().Append(nil, struct{ A []*node }{[]*node{nil}})
}

// command returns this test's process once more, with input.
func command(t *testing.T, input []byte) *exec.Cmd {
	c := exec.Command(os.Args[0], "-test.run=TestCodeInAnotherProcess")
	c.Env = append(os.Environ(), "GOBS_DECODE=1")
	c.Stdin = bytes.NewReader(input)
	return c
}
