package replay

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/stategraft/stategraft/agent/anna/wire"
)

// pipeline is the flow of records: each is looked up, put with others of its owner into
// a PUT, and some are read back. One goroutine decides (flow); those that wait for answers
// only wait. So there are no locks, and the number of tuples that are out is one number.
type pipeline struct {
	*run
	in     chan []*item
	events chan event
	budget int // tuples that may be out
	batch  int // tuples of a PUT

	out     int   // tuples that are out: lookups, PUTs and GETs
	lookups int   // of them
	bytes   int64 // of the records in memory
	items   int   // their number
	read    int64 // records so far, to choose those that are read back
	ended   bool  // all is read

	unknown []*item           // to be looked up
	later   []*item           // to be looked up when they are due
	owners  map[string]*owner // that have records, or have not answered
	full    []*owner          // that have a batch, in the order of its filling
	counts  counts            // of packs that are not done
	routing trouble
	failed  error // of the checkpoint
}

// most is how many records are in memory at most, however small.
const most = 10000

// mostBytes is of a PUT with more than one tuple.
const mostBytes = 1 << 20

// owner is a thread of a KVS node.
type owner struct {
	at     string
	items  []*item // that wait for a PUT
	bytes  int64
	puts   int  // PUTs that are out
	queued bool // it is in full
	trouble
}

// event is an answer, to a lookup, a PUT or a look.
type event struct {
	taken  int // tuples that are not out any more
	handle func()
}

func newPipeline(r *run, budget int) *pipeline {
	return &pipeline{run: r, in: make(chan []*item), events: make(chan event, budget+1), budget: budget,
		// A batch is to leave room for lookups beside it.
		batch: max(1, min(r.Batch, budget/2)), owners: map[string]*owner{}}
}

// flow ends when every record is answered, or cannot be.
func (p *pipeline) flow(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	tick := time.NewTicker(min(p.Pause, time.Second))
	defer tick.Stop()
	for {
		p.start(ctx)
		if p.ended && p.items == 0 {
			return nil
		}
		in := p.in
		if p.ended || p.filled() {
			in = nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case some, ok := <-in:
			p.ended = !ok
			for _, it := range some {
				p.take(it)
			}
		case e := <-p.events:
			p.out -= e.taken
			e.handle()
		case <-tick.C:
			p.wake(time.Now())
			p.probe(ctx)
		}
		if p.failed != nil {
			return p.failed
		}
		p.progress()
	}
}

// take takes a record in.
func (p *pipeline) take(it *item) {
	if it.last {
		it.pack.read = true
		p.packed(it.pack)
		return
	}
	p.read++
	it.check = p.Check > 0 && p.read%int64(p.Check) == 0
	it.pack.open++
	p.items++
	p.bytes += it.size()
	switch {
	case !it.Lattice.Known():
		p.refuse(it, fmt.Sprintf("key %.100q is of type %v in the backup, which Anna takes from nobody", it.Key, it.Lattice))
		return
	case it.Key == "":
		p.refuse(it, "the empty key has no owner in Anna")
		return
	}
	p.unknown = append(p.unknown, it)
}

// start sends what may be sent.
func (p *pipeline) start(ctx context.Context) {
	for len(p.full) > 0 {
		o := p.full[0]
		if o.since.IsZero() && !p.put(ctx, o) {
			break // no room
		}
		p.full[0], p.full, o.queued = nil, p.full[1:], false
		p.queue(o)
	}
	// What has an owner goes first, or the records in memory were all of that sort.
	for len(p.unknown) > 0 && p.out < p.budget && len(p.full) == 0 && p.asks() {
		n := min(len(p.unknown), p.budget-p.out, group)
		if !p.routing.since.IsZero() {
			n = 1
		}
		some := slices.Clone(p.unknown[:n])
		clear(p.unknown[:n]) // not to keep values in memory
		p.unknown = p.unknown[n:]
		p.lookup(ctx, some)
	}
	// Batches get fuller as long as lookups are under way, or records come.
	if p.lookups > 0 || len(p.full) > 0 || p.out > 0 && !p.ended && !p.filled() {
		return
	}
	for _, o := range p.owners {
		if o.since.IsZero() && !p.put(ctx, o) {
			return
		}
	}
}

// asks tells whether routing may be asked: one that does not answer with one lookup.
func (p *pipeline) asks() bool {
	return p.routing.since.IsZero() || p.lookups == 0 && p.routing.calm()
}

// filled tells that there is no room for another record.
func (p *pipeline) filled() bool { return p.items >= most || p.bytes >= p.Bytes }

// probe asks those again that have not answered.
func (p *pipeline) probe(ctx context.Context) {
	for _, o := range p.owners {
		if !o.since.IsZero() && o.puts == 0 && o.calm() {
			p.put(ctx, o)
		}
	}
}

// queue notes that an owner has a batch.
func (p *pipeline) queue(o *owner) {
	if !o.queued && o.since.IsZero() && (len(o.items) >= p.batch || o.bytes >= mostBytes) {
		o.queued = true
		p.full = append(p.full, o)
	}
}

// lookup asks for the owners of keys.
func (p *pipeline) lookup(ctx context.Context, items []*item) {
	p.out += len(items)
	p.lookups += len(items)
	go ask(ctx, p.Client, items, func(first int, answers []answer) {
		p.events <- event{len(answers), func() {
			p.lookups -= len(answers)
			for i, a := range answers {
				p.known(items[first+i], a)
			}
		}}
	})
}

// known takes the owners of a key.
func (p *pipeline) known(it *item, a answer) {
	if a.err != nil {
		p.routing.failed(p.run, "routing", a.err)
		p.retry(it)
		return
	}
	p.routing = trouble{}
	if p.Only != nil {
		if a.owners = p.Only(a.owners); len(a.owners) == 0 {
			p.finish(it)
			return
		}
	}
	o := p.owner(it.choose(a.owners))
	o.items = append(o.items, it)
	o.bytes += it.size()
	p.queue(o)
}

func (p *pipeline) owner(at string) *owner {
	o := p.owners[at]
	if o == nil {
		o = &owner{at: at}
		p.owners[at] = o
	}
	return o
}

// put sends a batch to an owner, and tells whether there was room for it. One that has not
// answered is sent one tuple: it may have stopped for a moment, and keeps all that it was
// sent.
func (p *pipeline) put(ctx context.Context, o *owner) bool {
	limit := p.batch
	if !o.since.IsZero() {
		limit = 1
	}
	n := 0
	for bytes := int64(0); n < min(limit, len(o.items)) && (n == 0 || bytes+o.items[n].size() <= mostBytes); n++ {
		bytes += o.items[n].size()
	}
	if n == 0 || p.out+n > p.budget {
		return n == 0
	}
	items := append([]*item(nil), o.items[:n]...)
	o.items = append(o.items[:0], o.items[n:]...)
	clear(o.items[len(o.items):cap(o.items)]) // not to keep values in memory
	tuples := make([]wire.Tuple, n)
	for i, it := range items {
		o.bytes -= it.size()
		tuples[i] = it.tuple()
	}
	p.out += n
	o.puts++
	go func() {
		results, err := p.Client.Put(ctx, o.at, tuples)
		if err == nil && len(results) != n {
			err = fmt.Errorf("%d answers to %d tuples", len(results), n)
		}
		p.events <- event{n, func() { p.answered(ctx, o, items, results, err) }}
	}()
	return true
}

// progress tells how far it is, and what is waited for.
func (p *pipeline) progress() {
	if time.Since(p.told) < time.Second {
		return
	}
	text := p.routing.text()
	for _, o := range p.owners {
		if said := o.text(); said != "" && text == "" {
			text = said
		}
	}
	p.message(text)
	p.count(p.counts)
	p.tell()
}
