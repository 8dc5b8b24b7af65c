#include "textflag.h"

// Every processor that runs this knows these instructions (SSE2).

// ESCAPES leaves 0xff in hit for each byte of block that needsEscape names. Two
// tests serve four rules: with bit 1 flipped the control characters and the
// quote are the bytes up to 0x20. block and tmp are used up.
#define ESCAPES(block, tmp, hit) \
	MOVO    block, hit \
	PXOR    X0, hit    \
	MOVO    hit, tmp   \
	PMINUB  X1, tmp    \
	PCMPEQB tmp, hit   \
	MOVO    block, tmp \
	PCMPEQB X2, tmp    \
	POR     tmp, hit   \
	PCMPEQB X3, block  \
	POR     block, hit

// FILL puts a byte, given eight times, into all sixteen places of x.
#define FILL(bytes, x) \
	MOVQ       $bytes, AX \
	MOVQ       AX, x      \
	PUNPCKLQDQ x, x

// func plainBlocks(s string) int
TEXT ·plainBlocks(SB), NOSPLIT, $0-24
	MOVQ s_base+0(FP), SI
	MOVQ s_len+8(FP), CX
	MOVQ SI, DI
	CMPQ CX, $16
	JB   done
	FILL(0x0202020202020202, X0)
	FILL(0x2020202020202020, X1)
	FILL(0x5c5c5c5c5c5c5c5c, X2)
	FILL(0x7f7f7f7f7f7f7f7f, X3)

four:
	CMPQ     CX, $64
	JB       one
	MOVOU    (SI), X4
	MOVOU    16(SI), X5
	MOVOU    32(SI), X6
	MOVOU    48(SI), X7
	ESCAPES(X4, X8, X9)
	ESCAPES(X5, X10, X11)
	ESCAPES(X6, X12, X13)
	ESCAPES(X7, X8, X14)
	POR      X11, X9
	POR      X14, X13
	POR      X13, X9
	PMOVMSKB X9, AX
	TESTL    AX, AX
	JNZ      one // finds out where
	ADDQ     $64, SI
	SUBQ     $64, CX
	JMP      four

one:
	CMPQ     CX, $16
	JB       done
	MOVOU    (SI), X4
	ESCAPES(X4, X8, X9)
	PMOVMSKB X9, AX
	TESTL    AX, AX
	JNZ      found
	ADDQ     $16, SI
	SUBQ     $16, CX
	JMP      one

found:
	BSFL AX, AX
	ADDQ AX, SI

done:
	SUBQ DI, SI
	MOVQ SI, ret+16(FP)
	RET
