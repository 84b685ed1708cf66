package replay

import (
	"context"
	"sync"
	"testing"

	"github.com/stategraft/stategraft/agent/anna/client"
	"github.com/stategraft/stategraft/agent/anna/stage"
	"github.com/stategraft/stategraft/agent/anna/wire"
	"github.com/stategraft/stategraft/test/annanode"
)

// BenchmarkReplay is beside BenchmarkPlain, a client that writes the same keys with the
// same bound and does nothing else: the first is to reach 80 % of the second.
func BenchmarkReplay(b *testing.B) {
	records, _ := backup(10000)
	s := staged(b, records, len(records))
	bench(b, func(c *client.Client, _ []stage.Record) error {
		return Run(b.Context(), Options{Client: c, Staged: s, State: b.TempDir()})
	})
}

func BenchmarkPlain(b *testing.B) {
	bench(b, func(c *client.Client, records []stage.Record) error { return plain(b.Context(), c, records) })
}

func bench(b *testing.B, run func(*client.Client, []stage.Record) error) {
	records, _ := backup(10000)
	n := 0
	for b.Loop() {
		b.StopTimer()
		cluster, c := anna(b, annanode.ClusterConfig{Routing: 1, Memory: 1, Threads: annanode.Threads{Memory: 2}})
		b.StartTimer()
		if err := run(c, records); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		n += len(records)
		c.Close()
		cluster.Close()
		b.StartTimer()
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "keys/s")
}

// plain keeps two windows of half the bound on their way: one is looked up while the other
// is written.
func plain(ctx context.Context, c *client.Client, records []stage.Record) error {
	parts := make(chan []stage.Record)
	failed := make(chan error, 2)
	var wait sync.WaitGroup
	for range 2 {
		wait.Go(func() {
			for part := range parts {
				if err := write(ctx, c, part); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	for len(records) > 0 {
		n := min(Outstanding/2, len(records))
		select {
		case parts <- records[:n]:
			records = records[n:]
		case err := <-failed:
			return err
		}
	}
	close(parts)
	wait.Wait()
	close(failed)
	return <-failed
}

func write(ctx context.Context, c *client.Client, records []stage.Record) error {
	lookups := make([]*client.Lookup, len(records))
	for i, r := range records {
		var err error
		if lookups[i], err = c.OwnersAsync(ctx, r.Key); err != nil {
			return err
		}
	}
	batches := map[string][]wire.Tuple{}
	for i, r := range records {
		owners, err := lookups[i].Wait(ctx)
		if err != nil {
			return err
		}
		batches[owners[0]] = append(batches[owners[0]], wire.Tuple{Key: r.Key, Lattice: r.Lattice, Payload: r.Payload})
	}
	var puts []*client.Puts
	for at, tuples := range batches {
		p, err := c.PutAsync(ctx, at, tuples)
		if err != nil {
			return err
		}
		puts = append(puts, p)
	}
	for _, p := range puts {
		if _, err := p.Wait(ctx); err != nil {
			return err
		}
	}
	return nil
}
