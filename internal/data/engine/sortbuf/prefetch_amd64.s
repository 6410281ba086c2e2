#include "textflag.h"

// func prefetch(base unsafe.Pointer, entries *Entry, n int, shift, span uint64)
TEXT ·prefetch(SB), NOSPLIT, $0-40
	MOVQ base+0(FP), DI
	MOVQ entries+8(FP), SI
	MOVQ n+16(FP), DX
	MOVQ shift+24(FP), CX
	MOVQ span+32(FP), R8
	MOVQ $0xffffffffff, R9 // positionMask

entry:
	TESTQ DX, DX
	JLE   done
	MOVQ  8(SI), AX
	ANDQ  R9, AX
	SHLQ  CX, AX
	ADDQ  DI, AX
	LEAQ  (AX)(R8*1), BX
	ANDQ  $~63, AX

line:
	PREFETCHT0 (AX)
	ADDQ       $64, AX
	CMPQ       AX, BX
	JLT        line
	ADDQ       $16, SI
	DECQ       DX
	JMP        entry

done:
	RET

// func PrefetchLine(p unsafe.Pointer)
TEXT ·PrefetchLine(SB), NOSPLIT, $0-8
	MOVQ       p+0(FP), AX
	PREFETCHT0 (AX)
	RET
