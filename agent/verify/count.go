package verify

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stategraft/stategraft/agent/process"
	"github.com/stategraft/stategraft/agent/sstable"
	"github.com/stategraft/stategraft/api/node"
)

const (
	// usualBatch is how many SSTables one run of the tool looks at: to start it takes
	// seconds.
	usualBatch = 100
	// trials is on how many SSTables a way to run the tool may fail until it is held to be
	// of no use. Fewer may be damaged all.
	trials = 3
)

// counter counts the rows of SSTables.
type counter struct {
	Config
	scan bool // the tool knows --scan
	tool tool
	v    *node.Verified
	// failed are SSTables that the tool could not count although their data have their
	// checksum, by why.
	failed map[string]int
}

// count counts the rows of all SSTables of a directory by the best way that the image
// has, and gives what is there of each table.
func (c Config) count(ctx context.Context, dir string, all []*files, v *node.Verified) (map[string]held, error) {
	tools, err := c.tools()
	if err != nil {
		return nil, err
	}
	n := &counter{Config: c, v: v, failed: map[string]int{}}
	found, why, err := n.choose(ctx, tools, all)
	if err != nil {
		return nil, err
	}
	if !found {
		c.Log.Warn("no rows are read", "why", why)
		return c.statistics(dir, why, all, v)
	}
	c.Log.Info("counting rows", "tool", n.tool.what, "scan", n.scan)
	if err := n.rest(ctx, all); err != nil {
		return nil, err
	}
	for _, why := range slices.Sorted(maps.Keys(n.failed)) {
		v.Notes = append(v.Notes, fmt.Sprintf("%d SSTables were not counted: %s", n.failed[why], why))
	}
	scanned := true
	for _, s := range all {
		if s.rows >= 0 {
			scanned = scanned && s.scanned
			if !isIndex(s.table) {
				v.Rows += s.rows
			}
		}
	}
	v.Method = node.CountedByScan
	if !scanned {
		v.Method = node.CountedByStatistics
		v.Notes = append(v.Notes, "rows were not read: sstablemetadata of this image has no --scan; what the SSTables say of themselves counts")
	}
	return heldBy(all), nil
}

// statistics goes by what the SSTables say of themselves where no tool does.
func (c Config) statistics(dir, why string, all []*files, v *node.Verified) (map[string]held, error) {
	v.Notes = append(v.Notes, "rows were not read: "+why+"; what the SSTables say of themselves counts")
	tables, err := sstable.Count(dir)
	if err != nil {
		return nil, fmt.Errorf("count rows: %w", err)
	}
	have := heldBy(all)
	for _, t := range tables {
		h, ok := have[t.Table]
		if !ok || !t.Counted {
			continue
		}
		h.rows, h.counted = t.Rows, true
		have[t.Table] = h
		if !isIndex(t.Table) {
			v.Rows += t.Rows
		}
		v.Method = node.CountedByStatistics
	}
	return have, nil
}

// choose tries each way on a few SSTables until one works.
func (n *counter) choose(ctx context.Context, tools []tool, all []*files) (bool, string, error) {
	if len(tools) == 0 {
		return false, "this image has no sstablemetadata, nor Cassandra's jars with a Java", nil
	}
	why := ""
	for _, t := range tools {
		for _, scan := range []bool{true, false} {
			n.tool, n.scan = t, scan
			for _, s := range all[:min(trials, len(all))] {
				one := *s // what it finds now is found again
				run, err := n.run(ctx, []*files{&one})
				if err != nil {
					return false, "", err
				}
				if one.rows >= 0 {
					n.scan = one.scanned
					return true, "", nil
				}
				why = run
			}
		}
	}
	return false, "sstablemetadata of this image fails: " + why, nil
}

// rest counts them all. What the tool fails at is passed over: nothing after it was
// looked at.
func (n *counter) rest(ctx context.Context, all []*files) error {
	size := n.Batch
	if size <= 0 {
		size = usualBatch
	}
	for len(all) > 0 {
		batch := all[:min(size, len(all))]
		s := newScan(batch)
		err := process.Run(ctx, n.tool.spec(n.args(batch)...), s.line)
		if ctx.Err() != nil {
			return fmt.Errorf("count rows: %w", context.Cause(ctx))
		}
		if err == nil {
			all = all[len(batch):]
			n.Log.Info("counted", "sstables_left", len(all))
			continue
		}
		done := s.done()
		if done < len(batch) {
			n.fails(batch[done], s.failure, err)
			done++
		}
		all = all[done:]
	}
	return nil
}

// fails notes an SSTable that the tool cannot read. It is damaged if its data have
// another checksum, which is told already, or if the tool says so; else the tool may
// be too small for it, or not know what it is made of.
func (n *counter) fails(s *files, failure string, err error) {
	s.rows = -1
	if failure == "" {
		failure = err.Error()
	}
	n.Log.Warn("an SSTable cannot be read", "table", s.table, "sstable", s.name, "why", failure)
	switch {
	case strings.Contains(failure, "Corrupt") || !s.whole && strings.Contains(failure, "Exception"):
		n.v.Problems = append(n.v.Problems, fmt.Sprintf("%s of %s cannot be read: %s", s.name, s.table, failure))
	default:
		n.failed[failure]++
	}
}

// run runs the tool once, and gives why it found nothing.
func (n *counter) run(ctx context.Context, batch []*files) (string, error) {
	s := newScan(batch)
	var tail process.Tail
	tail.Size = 1
	err := process.Run(ctx, n.tool.spec(n.args(batch)...), func(line string) {
		s.line(line)
		if s.at < 0 { // later there are the users' data
			tail.Add(line)
		}
	})
	if ctx.Err() != nil {
		return "", fmt.Errorf("count rows: %w", context.Cause(ctx))
	}
	switch {
	case s.failure != "":
		return s.failure, nil
	case err != nil:
		return fmt.Sprintf("%v: %s", err, tail.String()), nil
	}
	return "it says nothing of rows", nil
}

func (n *counter) args(batch []*files) (args []string) {
	if n.scan {
		args = append(args, "--scan")
	}
	for _, s := range batch {
		args = append(args, s.data())
	}
	return args
}
