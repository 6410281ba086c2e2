#include "textflag.h"

// Both functions look at 64 places a turn. They count the line feeds of the same bytes in Y14 and Y15,
// one counter of eight bits for each place of a lane, so that a call may take at most 255 turns.
//
//	SI  the next place     CX  turns left     DI  where the turn's bits are stored
//	R12 bits of all turns  Y7  LF in all lanes
#define BEGIN \
	MOVQ  $10, BX; \
	MOVQ  BX, X7; \
	VPBROADCASTB X7, Y7; \
	VPXOR Y14, Y14, Y14; \
	VPXOR Y15, Y15, Y15; \
	XORQ  R12, R12

// FEEDS counts the line feeds in a register.
#define FEEDS(bytes, counters) \
	VPCMPEQB bytes, Y7, Y9; \
	VPSUBB Y9, counters, counters

// TURN stores the places, of which the first 32 are in R8 and the others in R9, and continues at the label.
#define TURN(label) \
	SHLQ $32, R9; \
	ORQ  R9, R8; \
	MOVQ R8, (DI); \
	ORQ  R8, R12; \
	ADDQ $64, SI; \
	ADDQ $8, DI; \
	DECQ CX; \
	JNZ  label

// COUNT adds up the counters into BX.
#define COUNT \
	VPXOR   Y8, Y8, Y8; \
	VPSADBW Y8, Y14, Y9; \
	VPSADBW Y8, Y15, Y10; \
	VPADDQ  Y9, Y10, Y9; \
	VEXTRACTI128 $1, Y9, X10; \
	VPADDQ  X9, X10, X9; \
	VPSRLDQ $8, X9, X10; \
	VPADDQ  X9, X10, X9; \
	VMOVQ   X9, BX

// func pairVector(k *pairKeys, b *byte, apart int, places *uint64, n int) (any uint64, lines int)
TEXT ·pairVector(SB), NOSPLIT, $0-56
	MOVQ k+0(FP), AX
	MOVQ b+8(FP), SI
	MOVQ apart+16(FP), R11
	MOVQ places+24(FP), DI
	MOVQ n+32(FP), CX
	VPBROADCASTB (AX), Y0
	VPBROADCASTB 1(AX), Y1
	VPBROADCASTB 2(AX), Y2
	VPBROADCASTB 3(AX), Y3
	BEGIN

turn:
	PREFETCHT0 2048(SI)
	VMOVDQU   (SI), Y4
	VMOVDQU   32(SI), Y5
	FEEDS(Y4, Y14)
	FEEDS(Y5, Y15)
	VPOR      Y4, Y1, Y4
	VPOR      Y5, Y1, Y5
	VPOR      (SI)(R11*1), Y3, Y8
	VPOR      32(SI)(R11*1), Y3, Y10
	VPCMPEQB  Y4, Y0, Y4
	VPCMPEQB  Y5, Y0, Y5
	VPCMPEQB  Y8, Y2, Y8
	VPCMPEQB  Y10, Y2, Y10
	VPAND     Y4, Y8, Y4
	VPAND     Y5, Y10, Y5
	VPMOVMSKB Y4, R8
	VPMOVMSKB Y5, R9
	TURN(turn)
	COUNT
	MOVQ R12, any+40(FP)
	MOVQ BX, lines+48(FP)
	VZEROUPPER
	RET

// BUCKETS sets Y8 to ones where no bucket is left by the byte at a place, in Y8, and the two behind it. Y0
// to Y5 have the tables of the low and the high halves of the three bytes, Y6 has 15 in all lanes.
#define BUCKETS(place) \
	VMOVDQU (place+1)(SI), Y9; \
	VMOVDQU (place+2)(SI), Y10; \
	VPAND   Y6, Y8, Y11; \
	VPSRLW  $4, Y8, Y12; \
	VPAND   Y6, Y12, Y12; \
	VPSHUFB Y11, Y0, Y11; \
	VPSHUFB Y12, Y1, Y12; \
	VPAND   Y11, Y12, Y13; \
	VPAND   Y6, Y9, Y11; \
	VPSRLW  $4, Y9, Y12; \
	VPAND   Y6, Y12, Y12; \
	VPSHUFB Y11, Y2, Y11; \
	VPSHUFB Y12, Y3, Y12; \
	VPAND   Y11, Y13, Y13; \
	VPAND   Y12, Y13, Y13; \
	VPAND   Y6, Y10, Y11; \
	VPSRLW  $4, Y10, Y12; \
	VPAND   Y6, Y12, Y12; \
	VPSHUFB Y11, Y4, Y11; \
	VPSHUFB Y12, Y5, Y12; \
	VPAND   Y11, Y13, Y13; \
	VPAND   Y12, Y13, Y13; \
	VPXOR   Y8, Y8, Y8; \
	VPCMPEQB Y8, Y13, Y8

// func bucketVector(halves *[6][16]byte, b *byte, places *uint64, n int) (any uint64, lines int)
TEXT ·bucketVector(SB), NOSPLIT, $0-48
	MOVQ halves+0(FP), AX
	MOVQ b+8(FP), SI
	MOVQ places+16(FP), DI
	MOVQ n+24(FP), CX
	VBROADCASTI128 (AX), Y0
	VBROADCASTI128 16(AX), Y1
	VBROADCASTI128 32(AX), Y2
	VBROADCASTI128 48(AX), Y3
	VBROADCASTI128 64(AX), Y4
	VBROADCASTI128 80(AX), Y5
	MOVQ $15, BX
	MOVQ BX, X6
	VPBROADCASTB X6, Y6
	BEGIN

turn:
	PREFETCHT0 2048(SI)
	VMOVDQU   (SI), Y8
	FEEDS(Y8, Y14)
	BUCKETS(0)
	VPMOVMSKB Y8, R8
	VMOVDQU   32(SI), Y8
	FEEDS(Y8, Y15)
	BUCKETS(32)
	VPMOVMSKB Y8, R9
	NOTL      R8
	NOTL      R9
	TURN(turn)
	COUNT
	MOVQ R12, any+32(FP)
	MOVQ BX, lines+40(FP)
	VZEROUPPER
	RET
