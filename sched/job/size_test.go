package job

import (
	"testing"
	"unsafe"
)

// Simulations hold a million live tasks and their attempts, so a new field of either should
// be worth its bytes. Rare state belongs into setbacks.
func TestSizes(t *testing.T) {
	if n := unsafe.Sizeof(Task{}); n > 80 {
		t.Errorf("a task has %d bytes", n)
	}
	if n := unsafe.Sizeof(Attempt{}); n > 144 {
		t.Errorf("an attempt has %d bytes, so its size class exceeds 144", n)
	}
}
