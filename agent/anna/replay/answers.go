package replay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stategraft/stategraft/agent/anna/client"
	"github.com/stategraft/stategraft/agent/anna/lattice"
	"github.com/stategraft/stategraft/agent/anna/wire"
)

// few is how often is tried what should not fail at all.
const few = 3

// answered takes the answers to a PUT.
func (p *pipeline) answered(ctx context.Context, o *owner, items []*item, results []client.PutResult, err error) {
	o.puts--
	var check []*item
	silent, disk := 0, p.onDisk(o)
	for i, it := range items {
		switch {
		case err != nil || !results[i].Done && results[i].Code == wire.Timeout:
			silent++
			p.retry(it)
		case results[i].Done && (it.check || it.lost > 0 || disk):
			check = append(check, it)
		case results[i].Done:
			p.written(o, it)
		case results[i].Refused:
			check = append(check, it) // to see why
		default:
			p.retry(it) // the ring has changed, or routing was wrong
		}
	}
	if silent > 0 {
		if err == nil {
			err = fmt.Errorf("%d of %d keys", silent, len(items))
		}
		o.failed(p.run, o.at, err)
	} else {
		o.trouble = trouble{}
		p.queue(o)
	}
	if len(check) > 0 {
		p.look(ctx, o, check)
	}
	p.forget(o)
}

// onDisk tells of the disk tier, which says of every PUT that it is done, also where the
// directory is not there, the disk is full, or what was there cannot be read: all is read back.
func (p *pipeline) onDisk(o *owner) bool {
	host, _, err := wire.ParseAddress(o.at)
	return p.Check > 0 && err == nil && p.disk[host]
}

// forget drops an owner of whom there is nothing to remember.
func (p *pipeline) forget(o *owner) {
	if len(o.items) == 0 && o.puts == 0 && o.since.IsZero() && !o.queued {
		delete(p.owners, o.at)
	}
}

// look reads keys back. It is not held back by the budget, which it follows upon: it asks
// no more than was just answered, of a thread that knows these keys now.
func (p *pipeline) look(ctx context.Context, o *owner, items []*item) {
	p.out += len(items)
	keys := make([]string, len(items))
	for i, it := range items {
		keys[i] = it.Key
	}
	go func() {
		found, err := p.Client.Get(ctx, o.at, keys)
		if err == nil && len(found) != len(keys) {
			err = fmt.Errorf("%d answers to %d keys", len(found), len(keys))
		}
		p.events <- event{len(items), func() {
			for i, it := range items {
				if err != nil {
					p.retry(it)
					continue
				}
				p.judged(o, it, found[i])
			}
			if err != nil {
				o.failed(p.run, o.at, err)
			}
		}}
	}()
}

// judged takes what was read back.
func (p *pipeline) judged(o *owner, it *item, found wire.Tuple) {
	v, err := it.judge(found)
	switch {
	case err != nil:
		p.refuse(it, err.Error())
	case v == same || v == newer:
		if v == newer {
			it.pack.Newer++
			p.counts.Newer++
		}
		p.written(o, it)
	case v == foreign:
		p.refuse(it, fmt.Sprintf("key %.100q is of type %v in the cluster and %v in the backup", it.Key, found.Lattice, it.Lattice))
	case v == unclear:
		p.retry(it)
	default:
		if it.lost++; it.lost < few {
			p.retry(it)
			return
		}
		p.at.Lost = true
		p.refuse(it, fmt.Sprintf("key %.100q (%v) is not there after %s said that it is written; where that is of the disk tier, does its directory exist?", it.Key, it.Lattice, o.at))
	}
}

// retry has a key looked up again, after a pause that grows.
func (p *pipeline) retry(it *item) {
	it.due = time.Now().Add(backoff(p.Pause, it.tries, p.LongestPause))
	it.tries++
	p.later = append(p.later, it)
}

// wake looks up again what is due.
func (p *pipeline) wake(now time.Time) {
	rest := p.later[:0]
	for _, it := range p.later {
		if now.Before(it.due) {
			rest = append(rest, it)
		} else {
			p.unknown = append(p.unknown, it)
		}
	}
	clear(p.later[len(rest):])
	p.later = rest
}

// written is the end of a record that a thread has taken.
func (p *pipeline) written(o *owner, it *item) {
	if !lattice.Empty(it.Lattice, it.Payload) { // which Anna shows as nothing
		p.at.witness(o.at, it.Key)
	}
	p.finish(it)
}

// finish is the end of a record that is written.
func (p *pipeline) finish(it *item) {
	it.pack.Keys++
	p.counts.Keys++
	p.close(it)
}

// refuse is the end of a record that cannot be.
func (p *pipeline) refuse(it *item, why string) {
	it.pack.Failed++
	p.counts.Failed++
	if p.at.fail(why) {
		p.Log.Error("a key is not restored: " + why)
	}
	p.close(it)
}

func (p *pipeline) close(it *item) {
	p.items--
	p.bytes -= it.size()
	it.pack.open--
	p.packed(it.pack)
}

// packed writes down that a pack is done, if it is.
func (p *pipeline) packed(s *packState) {
	if !s.read || s.open > 0 {
		return
	}
	p.at.Packs[packID(s.of)] = s.counts
	p.counts.Keys -= s.Keys
	p.counts.Newer -= s.Newer
	p.counts.Failed -= s.Failed
	p.failed = errors.Join(p.failed, p.at.write())
}
