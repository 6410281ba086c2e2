package generate

import (
	"bufio"
	"fmt"
	"io"
	"math/big"
)

// The generator of Hadoop's TeraGen: x' = a·x + c modulo 2^128, from x = 0.
var (
	teraA, _ = new(big.Int).SetString("2360ed051fc65da44385df649fccf645", 16)
	teraC, _ = new(big.Int).SetString("4a696d47726179524950202020202001", 16)
	teraMod  = new(big.Int).Lsh(big.NewInt(1), 128)
)

// teraState returns the state of the generator for a row: the value after row+1 steps.
func teraState(row uint64) *big.Int {
	// The composition of n steps is x → A·x + C, by repeated squaring.
	a, c := new(big.Int).Set(teraA), new(big.Int).Set(teraC)
	allA, allC := big.NewInt(1), new(big.Int)
	for n := new(big.Int).Add(new(big.Int).SetUint64(row), big.NewInt(1)); n.Sign() > 0; n.Rsh(n, 1) {
		if n.Bit(0) == 1 {
			allC.Mod(allC.Add(allC.Mul(allC, a), c), teraMod)
			allA.Mod(allA.Mul(allA, a), teraMod)
		}
		c.Mod(c.Add(new(big.Int).Mul(c, a), c), teraMod)
		a.Mod(a.Mul(a, a), teraMod)
	}
	return allC
}

// TeraRows writes the records [from, to) of Hadoop's TeraGen, byte for byte.
func TeraRows(w io.Writer, from, to uint64) error {
	out := bufio.NewWriterSize(w, 1<<16)
	if from >= to {
		return nil
	}
	// The generator jumps to its state at the first row, so parts can be written at the same time
	// and still equal Hadoop's file.
	x := teraState(from)
	var key [16]byte
	record := make([]byte, recordLen)
	for row := from; row < to; row++ {
		// Big endian: the first ten bytes are the key, the rest the filler.
		x.FillBytes(key[:])
		copy(record, key[:10])
		record[10], record[11] = 0, 0x11
		copy(record[12:], fmt.Sprintf("%032X", row))
		copy(record[44:], "\x88\x99\xaa\xbb")
		const hex = "0123456789ABCDEF"
		for i := range 12 {
			b := key[10+i/2]
			if i%2 == 0 {
				b >>= 4
			}
			for j := range 4 {
				record[48+4*i+j] = hex[b&15]
			}
		}
		copy(record[96:], "\xcc\xdd\xee\xff")
		if _, err := out.Write(record); err != nil {
			return err
		}
		x.Mod(x.Add(x.Mul(x, teraA), teraC), teraMod)
	}
	return out.Flush()
}
