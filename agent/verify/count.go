package verify

import (
	"context"
	"fmt"

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
	// mostUnread is at how many SSTables the tool may fail until the others are left: each
	// takes seconds, and it is bad enough.
	mostUnread = 50
)

// counter counts the rows of SSTables.
type counter struct {
	Config
	scan bool // the tool knows --scan
	tool tool
	v    *node.Verified
	// noScan is why rows are not read though the tool knows --scan.
	noScan string
	unread []unread
}

// count counts the rows of all SSTables of a directory by the best way that the image
// has, and gives what is there of each table.
func (c Config) count(ctx context.Context, dir string, all []*files, v *node.Verified) (map[string]held, error) {
	tools, err := c.tools()
	if err != nil {
		return nil, err
	}
	n := &counter{Config: c, v: v}
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
	n.judge(all)
	scanned, counted := true, false
	for _, s := range all {
		if s.rows >= 0 {
			scanned, counted = scanned && s.scanned, true
			if !isIndex(s.table) {
				v.Rows += s.rows
			}
		}
	}
	switch {
	case counted && scanned:
		v.Method = node.CountedByScan
	case counted:
		v.Method = node.CountedByStatistics
		why := "has no --scan"
		if n.noScan != "" {
			why = "fails with --scan: " + n.noScan
		}
		v.Notes = append(v.Notes, "rows were not read: sstablemetadata of this image "+why+"; what the SSTables say of themselves counts")
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
		if ok && !t.Counted {
			h.unread = true
			have[t.Table] = h
		}
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

// choose tries each way on a few SSTables until one works. Where none does, one counts as
// working that calls one of them corrupt.
func (n *counter) choose(ctx context.Context, tools []tool, all []*files) (bool, string, error) {
	if len(tools) == 0 {
		return false, "this image has no sstablemetadata, nor Cassandra's jars with a Java", nil
	}
	why, judging := "", false
	var judge counter
	for _, t := range tools {
		for _, scan := range []bool{true, false} {
			n.tool, n.scan = t, scan
			for _, s := range sample(all) {
				one := *s // what it finds now is found again
				run, reached, err := n.run(ctx, []*files{&one})
				if err != nil {
					return false, "", err
				}
				if one.rows >= 0 {
					n.scan = one.scanned
					return true, "", nil
				}
				if why = run; reached && scan {
					n.noScan = run
				}
				if !judging && corrupt(run) {
					judging, judge = true, *n
				}
			}
			if judging && judge.tool.what == t.what {
				break // without reading the data it may find nothing
			}
		}
	}
	if judging {
		n.tool, n.scan = judge.tool, judge.scan
		return true, "", nil
	}
	return false, "sstablemetadata of this image fails: " + why, nil
}

// sample are a few SSTables of different places in the list.
func sample(all []*files) (some []*files) {
	n := min(trials, len(all))
	for i := range n {
		some = append(some, all[i*(len(all)-1)/max(1, n-1)])
	}
	return some
}

// rest counts them all. What the tool fails at it is given once more, alone, and passed
// over then: nothing after it was looked at.
func (n *counter) rest(ctx context.Context, all []*files) error {
	size := n.Batch
	if size <= 0 {
		size = usualBatch
	}
	for len(all) > 0 {
		if len(n.unread) >= mostUnread {
			n.v.Notes = append(n.v.Notes, fmt.Sprintf("%d SSTables more were not counted, as so many fail", len(all)))
			return nil
		}
		batch := all[:min(size, len(all))]
		s, err := n.pass(ctx, batch)
		if ctx.Err() != nil {
			return fmt.Errorf("count rows: %w", context.Cause(ctx))
		}
		done := s.done()
		if err == nil || done >= len(batch) {
			for _, s := range batch {
				if s.rows < 0 {
					n.unread = append(n.unread, unread{s, saysNothing})
				}
			}
			all = all[len(batch):]
			n.Log.Info("counted", "sstables_left", len(all))
			continue
		}
		if len(batch) > 1 { // alone, as the others may be to blame
			s, err = n.pass(ctx, batch[done:done+1])
			if ctx.Err() != nil {
				return fmt.Errorf("count rows: %w", context.Cause(ctx))
			}
		}
		switch {
		case err != nil && s.done() == 0:
			n.fails(batch[done], s.failure, err)
		case batch[done].rows < 0:
			n.unread = append(n.unread, unread{batch[done], saysNothing})
		}
		all = all[done+1:]
	}
	return nil
}

func (n *counter) pass(ctx context.Context, batch []*files) (*scan, error) {
	s := newScan(batch)
	return s, process.Run(ctx, n.tool.spec(n.args(batch)...), s.line)
}

// run runs the tool once, and gives why it found nothing, and whether it came as far as
// an SSTable.
func (n *counter) run(ctx context.Context, batch []*files) (why string, reached bool, err error) {
	s := newScan(batch)
	var tail process.Tail
	tail.Size = 1
	failed := process.Run(ctx, n.tool.spec(n.args(batch)...), func(line string) {
		s.line(line)
		if s.at < 0 { // later there are the users' data
			tail.Add(line)
		}
	})
	if ctx.Err() != nil {
		return "", false, fmt.Errorf("count rows: %w", context.Cause(ctx))
	}
	switch {
	case s.failure != "":
		why = s.failure
	case failed != nil:
		why = fmt.Sprintf("%v: %s", failed, tail.String())
	default:
		why = saysNothing
	}
	return why, s.at >= 0, nil
}

const saysNothing = "it says nothing of rows"

func (n *counter) args(batch []*files) (args []string) {
	if n.scan {
		args = append(args, "--scan")
	}
	for _, s := range batch {
		args = append(args, s.data())
	}
	return args
}
