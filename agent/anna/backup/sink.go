package backup

import (
	"context"
	"fmt"
	"slices"

	"github.com/stategraft/stategraft/agent/anna/manifest"
	"github.com/stategraft/stategraft/agent/anna/pack"
	"github.com/stategraft/stategraft/agent/anna/store"
	"github.com/stategraft/stategraft/agent/anna/wire"
)

// packBytes is the size of a pack's records, in bytes, above which another is begun.
const packBytes = 48 << 20

// sink puts records into packs, but for those that packs of earlier backups have. It is
// of one goroutine.
type sink struct {
	job   *Job
	to    *store.Store
	base  *base // nil: none
	index *indexWriter

	writer *pack.Writer
	object *store.PackWriter // the pack that is being written; nil: none
	made   []manifest.Pack

	keys, bytes int64
	types       [16]int64
	sum         manifest.Sum
	folders     folders
}

// add takes a batch.
func (s *sink) add(ctx context.Context, items []item) error {
	for i := range items {
		if err := s.put(ctx, &items[i]); err != nil {
			return err
		}
	}
	return nil
}

func (s *sink) put(ctx context.Context, it *item) error {
	s.keys++
	s.bytes += int64(len(it.Key) + len(it.Payload))
	s.types[min(uint(it.Lattice), uint(len(s.types)-1))]++
	s.sum.Add(it.digest)
	s.folders.add(it.Key)
	short := short(it.digest[:])
	if number, record, ok := s.base.take(short); ok {
		s.index.add(entry{short, number, record})
		return nil
	}
	if s.object == nil {
		if err := s.open(ctx); err != nil {
			return err
		}
	}
	s.index.add(entry{short, s.base.packs() + uint32(len(s.made)), uint32(s.writer.Records())})
	if err := s.writer.Add(it.Record); err != nil {
		return err
	}
	if s.writer.Plain() >= packBytes {
		return s.close()
	}
	return nil
}

func (s *sink) open(ctx context.Context) error {
	var err error
	if s.object, err = s.to.CreatePack(ctx, s.job.Name, s.job.Node, len(s.made)+1); err != nil {
		s.object = nil
		return err
	}
	if s.writer == nil {
		s.writer = pack.NewWriter(s.object)
	} else {
		s.writer.Reset(s.object)
	}
	return nil
}

// close ends the pack that is being written.
func (s *sink) close() error {
	if s.object == nil {
		return nil
	}
	if err := s.writer.Close(); err != nil {
		s.abort()
		return err
	}
	p, err := s.object.Close()
	s.object = nil
	if err != nil {
		return err
	}
	p.Records, p.Plain = s.writer.Records(), s.writer.Plain()
	s.made = append(s.made, p)
	return nil
}

// abort ends it without an object, if it is not ended.
func (s *sink) abort() {
	if s.object != nil {
		s.object.Abort()
		s.object = nil
	}
}

// fill completes a manifest with what was put, and gives the places of the packs in it:
// of those of the base first, then of those that were made.
func (s *sink) fill(m *manifest.Manifest) (places []int) {
	m.Keys, m.Bytes, m.Digest = s.keys, s.bytes, s.sum.String()
	m.ByLattice = map[string]int64{}
	for t, n := range s.types {
		if n > 0 {
			m.ByLattice[wire.Lattice(t).String()] = n
		}
	}
	m.Packs = []manifest.Pack{}
	if s.base != nil {
		for i, p := range s.base.manifest.Packs {
			places = append(places, len(m.Packs))
			used := s.base.used[i]
			if used == nil {
				continue
			}
			if p.Used = used; used.Count(p.Records) == p.Records {
				p.Used = nil
			}
			m.Packs = append(m.Packs, p)
		}
	}
	for _, p := range s.made {
		places = append(places, len(m.Packs))
		m.Packs = append(m.Packs, p)
	}
	return places
}

// base is the backup before, whose packs are used again.
type base struct {
	manifest manifest.Manifest
	index    *index
	usable   []bool        // packs of the manifest that may be used
	used     []pack.Bitmap // of those, what is used; nil: nothing
}

// packs is their number.
func (b *base) packs() uint32 {
	if b == nil {
		return 0
	}
	return uint32(len(b.manifest.Packs))
}

// take finds a record and marks it as used.
func (b *base) take(digest digest) (number, record uint32, ok bool) {
	if b == nil {
		return 0, 0, false
	}
	number, record, ok = b.index.find(digest)
	if !ok || int(number) >= len(b.usable) || !b.usable[number] || int64(record) >= b.manifest.Packs[number].Records {
		return 0, 0, false
	}
	if b.used[number] == nil {
		b.used[number] = pack.NewBitmap(b.manifest.Packs[number].Records)
	}
	b.used[number].Set(int64(record))
	return number, record, true
}

// objects are the packs that may be used.
func (b *base) objects() []string {
	if b == nil {
		return nil
	}
	var names []string
	for i, p := range b.manifest.Packs {
		if b.usable[i] {
			names = append(names, p.Object)
		}
	}
	return names
}

// choose decides which packs are used again: those that are there, and of them neither
// those of which less than half is used any more, nor, where there are many, the small
// ones. What was in those is written anew, so that a backup never comes to need a
// thousand packs for what fits into ten.
func (b *base) choose(there map[string]int64) {
	const small, few = 4 << 20, 32
	b.usable = make([]bool, len(b.manifest.Packs))
	b.used = make([]pack.Bitmap, len(b.manifest.Packs))
	var smalls []int
	for i, p := range b.manifest.Packs {
		size, is := there[p.Object]
		b.usable[i] = is && size == p.Size && 2*p.Used.Count(p.Records) >= p.Records
		if b.usable[i] && p.Plain < small {
			smalls = append(smalls, i)
		}
	}
	if len(smalls) > few {
		for _, i := range smalls {
			b.usable[i] = false
		}
	}
}

// lost tells of a pack of the base that was used and is not there any more.
func (b *base) lost(there map[string]int64) error {
	if b == nil {
		return nil
	}
	for i, p := range b.manifest.Packs {
		if _, is := there[p.Object]; b.used[i] != nil && !is {
			return fmt.Errorf("%w (pack %s)", ErrBase, p.Object)
		}
	}
	return nil
}

// names are sorted, each once.
func names(of []string) []string {
	slices.Sort(of)
	return slices.Compact(of)
}
