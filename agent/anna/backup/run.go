package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/stategraft/stategraft/agent/anna/manifest"
	"github.com/stategraft/stategraft/agent/anna/store"
	"github.com/stategraft/stategraft/agent/anna/wire"
	"github.com/stategraft/stategraft/api/node"
)

// queued is how many batches wait for the pack, so that its compressing a frame keeps no
// thread waiting. What they hold is bounded by valueBytes.
const queued = 64

// backup is a run of a Job.
type backup struct {
	job   Job
	from  Source
	to    *store.Store
	tell  func(Progress)
	mutex sync.Mutex
	is    Progress
	told  time.Time

	made manifest.Manifest
	base *base
}

// Run makes it. progress may be nil; it is called from one goroutine at a time, about
// twice a second. A part of which Run returns an error is unfinished in the storage, if
// it is there at all: store.Discard removes it.
func Run(ctx context.Context, j Job, from Source, to *store.Store, progress func(Progress)) (manifest.Manifest, error) {
	j.complete()
	b := &backup{job: j, from: from, to: to, tell: progress, is: Progress{Phase: node.Preparing}}
	defer func() {
		if b.base != nil {
			b.base.index.close()
		}
	}()
	if err := b.run(ctx); err != nil {
		return manifest.Manifest{}, fmt.Errorf("backup %s of node %s: %w", j.Name, j.Node, err)
	}
	return b.made, nil
}

func (b *backup) run(ctx context.Context) error {
	b.made = manifest.Manifest{Version: manifest.Version, Name: b.job.Name, Node: b.job.Node, Cluster: b.job.Cluster, Role: b.job.Role,
		Mode: manifest.Full, Started: time.Now().UTC(), Server: manifest.Server(b.job.Self), Tier: b.job.Tier.String(), Encrypted: b.to.Encrypted()}
	if err := b.findBase(ctx); err != nil {
		return err
	}
	if err := b.to.Begin(ctx, store.Started{Name: b.job.Name, Node: b.job.Node, Started: b.made.Started, Packs: b.base.objects()}); err != nil {
		return err
	}
	// From here on they are kept; what went before that is not used.
	if err := b.checkBase(ctx); err != nil {
		return err
	}
	stamps := &stamps{job: &b.job, from: b.from, waiting: func(what string) { b.progress(func(p *Progress) { p.Message = what }) }}
	if err := stamps.wait(ctx); err != nil {
		return err
	}
	b.made.Threads = len(stamps.threads)
	if err := b.members(ctx); err != nil {
		return err
	}
	return b.upload(ctx, stamps)
}

// progress tells of a change, but not each.
func (b *backup) progress(change func(*Progress)) {
	if b.tell == nil {
		return
	}
	b.mutex.Lock()
	defer b.mutex.Unlock()
	before := b.is.Phase
	change(&b.is)
	if now := time.Now(); before != b.is.Phase || now.Sub(b.told) > 500*time.Millisecond {
		b.told = now
		b.tell(b.is)
	}
}

// members notes who is in the cluster.
func (b *backup) members(ctx context.Context) error {
	members, err := b.from.Members(ctx)
	if err != nil {
		return fmt.Errorf("ask for the members of the cluster: %w", err)
	}
	for _, t := range members.Tiers {
		for _, s := range t.Servers {
			b.made.Members = append(b.made.Members, manifest.Member{Tier: t.Tier.String(), Server: manifest.Server(s)})
			if t.Tier == wire.Memory || t.Tier == wire.Disk {
				b.made.Nodes = append(b.made.Nodes, podOf(s.Private))
			}
		}
	}
	b.made.Nodes = names(b.made.Nodes)
	return nil
}

// podOf is the pod of a private address: the first label where it is a DNS name.
func podOf(private string) string {
	if net.ParseIP(private) != nil {
		return private
	}
	name, _, _ := strings.Cut(private, ".")
	return name
}

// upload reads the keys and writes them, then the manifest and the index.
func (b *backup) upload(ctx context.Context, stamps *stamps) error {
	b.progress(func(p *Progress) { p.Phase, p.Message = node.Uploading, "" })
	missing := &missing{}
	sink := &sink{job: &b.job, to: b.to, base: b.base}
	if !b.to.Encrypted() {
		sink.index = &indexWriter{scratch: b.job.Scratch}
		defer sink.index.close()
	}
	defer sink.abort()
	group, dumping := errgroup.WithContext(ctx)
	batches := make(chan batch, queued)
	dump := &dump{job: &b.job, from: b.from, stamps: stamps, missing: missing, sink: batches,
		lists: semaphore.NewWeighted(listBytes), values: semaphore.NewWeighted(valueBytes)}
	group.Go(func() error {
		defer close(batches)
		return dump.run(dumping)
	})
	group.Go(func() error {
		for got := range batches {
			err := sink.add(ctx, got.items)
			got.done()
			if err != nil {
				return err
			}
			b.progress(func(p *Progress) { p.Keys, p.Bytes, p.Total = sink.keys, sink.bytes, dump.total.Load() })
		}
		return dumping.Err()
	})
	if err := group.Wait(); err != nil {
		return err
	}
	if err := sink.close(); err != nil {
		return err
	}
	b.progress(func(p *Progress) {
		p.Phase, p.Keys, p.Bytes, p.Total = node.Finishing, sink.keys, sink.bytes, dump.total.Load()
	})
	return b.finish(ctx, sink, missing)
}

// finish writes the manifest, after which the backup is there, and then the index.
func (b *backup) finish(ctx context.Context, sink *sink, missing *missing) error {
	places := sink.fill(&b.made)
	b.made.Missing, b.made.Finished = missing.found, time.Now().UTC()
	b.made.Notes = append(b.made.Notes, missing.notes(b.to.Encrypted())...)
	if note := b.fewer(); note != "" {
		b.made.Notes = append(b.made.Notes, note)
	}
	if err := b.folders(sink.folders); err != nil {
		return err
	}
	for _, note := range b.made.Notes {
		b.job.Log.Warn("a backup has a note: "+note, "backup", b.job.Name)
	}
	if err := b.made.Seal(); err != nil {
		return err
	}
	if err := b.to.Commit(ctx, b.made); err != nil {
		if errors.Is(err, store.ErrDamaged) && b.base != nil {
			if there, listing := b.to.Packs(ctx, b.job.Node); listing == nil {
				err = errors.Join(b.base.lost(there), err)
			}
		}
		return err
	}
	if sink.index == nil {
		return nil
	}
	// Without an index the next backup is a full one: that is no reason for this one to fail.
	from, to := io.Pipe()
	go func() { to.CloseWithError(sink.index.write(to, b.made, places)) }()
	err := b.to.WriteIndex(ctx, b.job.Name, b.job.Node, from)
	from.CloseWithError(errors.Join(err, io.ErrClosedPipe))
	if err != nil {
		b.job.Log.Warn("the index was not written: the next backup will be a full one", "backup", b.job.Name, "error", err)
	}
	return nil
}

// findBase looks for the backup of the node that has an index, to use its packs: the newest
// that was completed. Where there is none, or the index is not right, this one is full.
func (b *backup) findBase(ctx context.Context) error {
	if b.job.Full || b.to.Encrypted() {
		return nil
	}
	newest, err := b.to.Indexed(ctx, b.job.Node)
	if err != nil || newest == "" || newest == b.job.Name {
		return err
	}
	found, err := b.openBase(ctx, newest)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		b.job.Log.Info("the backup before cannot be built upon: this one is full", "backup", newest, "error", err)
		return nil
	}
	b.base = found
	b.made.Mode = manifest.Differential
	return b.checkBase(ctx)
}

func (b *backup) openBase(ctx context.Context, name string) (*base, error) {
	m, err := b.to.Manifest(ctx, name, b.job.Node)
	if err != nil {
		return nil, err
	}
	if m.Encrypted {
		return nil, fmt.Errorf("it is encrypted")
	}
	from, size, err := b.to.OpenIndex(ctx, name, b.job.Node)
	if err != nil {
		return nil, err
	}
	defer from.Close()
	index, err := readIndex(from, size, m, b.job.Scratch)
	if err != nil {
		return nil, err
	}
	return &base{manifest: m, index: index}, nil
}

// checkBase decides which packs of the base are used, of those that are there.
func (b *backup) checkBase(ctx context.Context) error {
	if b.base == nil {
		return nil
	}
	there, err := b.to.Packs(ctx, b.job.Node)
	if err != nil {
		return err
	}
	b.base.choose(there)
	return nil
}
