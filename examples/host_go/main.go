// Attention from Go: make TILEC=.. ARCH=.. CUDA=.., then ./host_go.
//
// The header that tilec makes is C; the Makefile makes it, shim.c gives cgo its functions, and gpu.go is what a Go program
// puts around that.  One sequence of 200 tokens, 2 heads; the result is compared with the same sums on the CPU.
package main

import (
	"fmt"
	"math"
	"os"
)

const (
	tokens = 200
	heads  = 2
	dim    = 64
)

func toBF16(x float32) uint16 {
	bits := math.Float32bits(x)
	return uint16((bits + 0x7fff + (bits>>16)&1) >> 16)
}

func fromBF16(half uint16) float64 {
	return float64(math.Float32frombits(uint32(half) << 16))
}

// random gives numbers from -1 to 1.
func random(seed *uint64) []uint16 {
	values := make([]uint16, tokens*heads*dim)
	for i := range values {
		*seed = *seed*6364136223846793005 + 1442695040888963407
		values[i] = toBF16(float32(*seed>>40)/(1<<23) - 1)
	}
	return values
}

func row(of []uint16, token, head int) []uint16 {
	return of[(token*heads+head)*dim:][:dim]
}

// expected is a row of causal attention in float64.
func expected(q, k, v []uint16, i, head int) [dim]float64 {
	var sum float64
	var out [dim]float64
	for j := 0; j <= i; j++ {
		var score float64
		for d, x := range row(q, i, head) {
			score += fromBF16(x) * fromBF16(row(k, j, head)[d])
		}
		weight := math.Exp(score / math.Sqrt(dim))
		sum += weight
		for d, x := range row(v, j, head) {
			out[d] += weight * fromBF16(x)
		}
	}
	for d := range out {
		out[d] /= sum
	}
	return out
}

func worstError(q, k, v, o []uint16) float64 {
	worst := 0.0
	for head := 0; head < heads; head++ {
		for i := 0; i < tokens; i++ {
			want := expected(q, k, v, i, head)
			for d, have := range row(o, i, head) {
				worst = math.Max(worst, math.Abs(fromBF16(have)-want[d])) // NaN stays
			}
		}
	}
	return worst
}

func run() error {
	context, err := Open()
	if err != nil {
		return err
	}
	defer context.Close()
	attention, err := Load()
	if err != nil {
		return err
	}
	defer attention.Unload()

	seed, shape := uint64(1), [4]int{1, tokens, heads, dim}
	var host [3][]uint16
	var on [3]*Buffer[uint16]
	for i := range host {
		host[i] = random(&seed)
		if on[i], err = Copied(host[i]); err != nil {
			return err
		}
		defer on[i].Free()
	}
	o, err := NewBuffer[uint16](tokens * heads * dim)
	if err != nil {
		return err
	}
	defer o.Free()
	l, err := NewBuffer[float32](heads * tokens)
	if err != nil {
		return err
	}
	defer l.Free()

	args := Args{Q: View4(on[0], shape), K: View4(on[1], shape), V: View4(on[2], shape), O: View4(o, shape),
		L: View3(l, [3]int{1, heads, tokens}), scale: 1 / 8.0} // 1 / sqrt(dim)
	if err := attention.Run(args); err != nil {
		return err
	}
	have, err := o.Read()
	if err != nil {
		return err
	}
	worst := worstError(host[0], host[1], host[2], have)
	fmt.Printf("%d tokens, %d heads: largest error %.5f\n", tokens, heads, worst)

	args.K.shape[1]-- // one key more in V than in K
	refused := attention.Run(args)
	if refused == nil {
		return fmt.Errorf("a wrong shape was not refused")
	}
	fmt.Println("refused:", refused)
	if !(worst < 0.02) { // bf16 keeps 8 bits of a value below 1, and p is rounded to it
		return fmt.Errorf("that is too much")
	}
	return nil
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
