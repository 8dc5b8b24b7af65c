package tally

import (
	"math/bits"
	"time"
)

// Durations is a histogram of durations in milliseconds. Below exactMillis (32 ms) it is
// exact; above, the width of a slot is at most a sixteenth of its start. The zero value
// is empty.
type Durations struct {
	Count int64
	Sum   time.Duration
	slots []int64
}

const (
	exactBits   = 5
	exactMillis = 1 << exactBits
	slotBits    = 4 // log2 of the slots per power of two
)

// slotOf returns the slot of a duration.
func slotOf(ms int64) int {
	if ms < exactMillis {
		return int(max(0, ms))
	}
	power := bits.Len64(uint64(ms)) - 1
	within := int(ms>>(power-slotBits)) & (1<<slotBits - 1)
	return exactMillis + (power-exactBits)<<slotBits + within
}

// lastOf returns the longest duration in a slot, in milliseconds.
func lastOf(slot int) int64 {
	if slot < exactMillis {
		return int64(slot)
	}
	slot -= exactMillis
	power, within := slot>>slotBits+exactBits, int64(slot&(1<<slotBits-1))
	width := int64(1) << (power - slotBits)
	return (1<<slotBits+within)*width + width - 1
}

func (d *Durations) add(took time.Duration) {
	ms := max(0, took.Milliseconds())
	at := slotOf(ms)
	if at >= len(d.slots) {
		d.slots = append(d.slots, make([]int64, at+1-len(d.slots))...)
	}
	d.slots[at]++
	d.Count++
	d.Sum += time.Duration(ms) * time.Millisecond
}

func (d *Durations) merge(other *Durations) {
	if len(other.slots) > len(d.slots) {
		d.slots = append(d.slots, make([]int64, len(other.slots)-len(d.slots))...)
	}
	for i, n := range other.slots {
		d.slots[i] += n
	}
	d.Count += other.Count
	d.Sum += other.Sum
}

// Percentile returns the p-th percentile, p from 1 to 100, rounded up to the end of its
// slot; 0 if the histogram is empty.
func (d *Durations) Percentile(p int) time.Duration {
	rank := (d.Count*int64(p) + 99) / 100
	for slot, n := range d.slots {
		if rank -= n; rank <= 0 && n > 0 {
			return time.Duration(lastOf(slot)) * time.Millisecond
		}
	}
	return 0
}

// Below returns the number of durations shorter than 2^power milliseconds.
func (d *Durations) Below(power int) (n int64) {
	for slot, count := range d.slots {
		if slot >= slotOf(1<<power) {
			break
		}
		n += count
	}
	return n
}
