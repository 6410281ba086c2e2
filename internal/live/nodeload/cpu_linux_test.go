package nodeload

import "testing"

func TestParseCPU(t *testing.T) {
	c, err := parseCPU([]byte("cpu  10 20 30 400 50 6 7 8 9 10\ncpu0 1 2 3 4 5 6 7 8 9 10\n"))
	if err != nil || c.busy != 81 || c.all != 531 {
		t.Errorf("%+v, %v; want 81 of 531 ticks", c, err)
	}
	for _, bad := range []string{"", "cpu 1 2 3", "cpu0 1 2 3 4 5 6 7 8", "cpu a 2 3 4 5 6 7 8"} {
		if c, err := parseCPU([]byte(bad)); err == nil {
			t.Errorf("%q is %+v", bad, c)
		}
	}
}

// The times of this machine grow.
func TestReadCPU(t *testing.T) {
	c, err := readCPU()
	if err != nil || c.busy <= 0 || c.all < c.busy {
		t.Errorf("%+v, %v", c, err)
	}
}
