package client

import (
	"slices"
	"sync"
)

// bound counts what may be outstanding. Who waits is let in in the order of
// arrival, so that many small requests do not keep a large one out for ever.
type bound struct {
	mu      sync.Mutex
	limit   int
	used    int
	waiting []*waiter
}

type waiter struct {
	n  int
	in chan struct{}
}

func newBound(limit int) *bound { return &bound{limit: limit} }

// fits: what is more than the limit by itself, since the limit was lowered, goes alone.
func (b *bound) fits(n int) bool { return b.used+n <= b.limit || b.used == 0 }

func (b *bound) try(n int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) > 0 || !b.fits(n) {
		return false
	}
	b.used += n
	return true
}

// take waits until n more fit, or until one of the channels is closed.
func (b *bound) take(n int, stop, quit <-chan struct{}) bool {
	if b.try(n) {
		return true
	}
	b.mu.Lock()
	w := &waiter{n, make(chan struct{})}
	b.waiting = append(b.waiting, w)
	b.admit()
	b.mu.Unlock()
	select {
	case <-w.in:
		return true
	case <-stop:
	case <-quit:
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.Index(b.waiting, w); i >= 0 {
		b.waiting = slices.Delete(b.waiting, i, i+1)
	} else {
		b.used -= n
	}
	b.admit() // it may have stood in the way of a smaller one
	return false
}

func (b *bound) give(n int) {
	if n == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= n
	b.admit()
}

func (b *bound) set(limit int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.limit = limit
	b.admit()
}

func (b *bound) max() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.limit
}

func (b *bound) inUse() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

func (b *bound) admit() {
	for len(b.waiting) > 0 && b.fits(b.waiting[0].n) {
		b.used += b.waiting[0].n
		close(b.waiting[0].in)
		b.waiting = b.waiting[1:]
	}
}
