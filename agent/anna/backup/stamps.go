package backup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/stategraft/stategraft/agent/anna/client"
)

// period is how often a thread of Anna reports its keys; 17 to 18 s at 300,000 keys
// (measured).
const period = 15 * time.Second

// silence is for how many periods a thread may not report before that is an error.
const silence = 8

// thread is what is known of a thread's reports.
type thread struct {
	tid      int
	stamp    uint64 // of the newest report; 0: none yet
	advanced int    // how often the stamp was seen to grow since the backup began
	size     int    // of the newest report, in bytes
	changed  time.Time
	next     time.Time // when to ask again
}

// stamps waits until a list of each thread's keys is complete as of the backup's begin:
// until its report has advanced twice. The first advance may be a report that was on its
// way already; what was written before the begin is in the second. No clocks are compared.
type stamps struct {
	job     *Job
	from    Source
	threads []*thread
	waiting func(string)
}

// wait gives the threads. Of their lists only the stamps are looked at, one at a time:
// a million keys are a list of 23 MB.
func (s *stamps) wait(ctx context.Context) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	for {
		t := s.due()
		if t == nil {
			if more, err := s.another(ctx); err != nil || !more {
				return err
			}
			continue
		}
		s.waiting(fmt.Sprintf("thread %d reports its keys every %s: waiting for the second report", t.tid, s.job.Period))
		if err := sleep(ctx, time.Until(t.next)); err != nil {
			return err
		}
		if _, err := s.ask(ctx, t); err != nil {
			return err
		}
	}
}

// begin asks every thread once. Where the number of threads is not known they are counted:
// those before the first that has never reported.
func (s *stamps) begin(ctx context.Context) error {
	if s.job.Threads > 0 {
		for tid := range s.job.Threads {
			if err := s.add(ctx, tid); err != nil {
				return err
			}
		}
		return nil
	}
	if err := s.add(ctx, 0); err != nil {
		return err
	}
	for s.threads[0].stamp == 0 { // a node reports first 15 s after it has started
		s.waiting("the node has not reported its keys yet")
		if err := sleep(ctx, time.Until(s.threads[0].next)); err != nil {
			return err
		}
		if _, err := s.ask(ctx, s.threads[0]); err != nil {
			return err
		}
	}
	for more := true; more; {
		var err error
		if more, err = s.another(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (s *stamps) add(ctx context.Context, tid int) error {
	t := &thread{tid: tid, changed: time.Now()}
	s.threads = append(s.threads, t)
	_, err := s.ask(ctx, t)
	return err
}

// another adds the thread after the last, if there is one, where they are counted. Only
// an answer tells that there is none.
func (s *stamps) another(ctx context.Context) (bool, error) {
	if s.job.Threads > 0 {
		return false, nil
	}
	t := &thread{tid: len(s.threads), changed: time.Now()}
	for {
		answered, err := s.ask(ctx, t)
		if err != nil {
			return false, err
		}
		if answered && t.stamp == 0 {
			return false, nil
		}
		if answered {
			s.threads = append(s.threads, t)
			return true, nil
		}
		if err := sleep(ctx, time.Until(t.next)); err != nil {
			return false, err
		}
	}
}

// due is the thread to ask next; nil where all lists are complete.
func (s *stamps) due() *thread {
	var first *thread
	for _, t := range s.threads {
		if t.advanced < 2 && (first == nil || t.next.Before(first.next)) {
			first = t
		}
	}
	return first
}

// ask looks at a thread's newest report, and tells whether it was answered; the answer may
// be that there is none.
func (s *stamps) ask(ctx context.Context, t *thread) (answered bool, err error) {
	report, problem := s.from.Report(ctx, s.job.Self, s.job.Tier, t.tid)
	now := time.Now()
	t.next = now.Add(s.job.Period / 6)
	switch {
	case ctx.Err() != nil:
		return false, ctx.Err()
	case errors.Is(problem, client.ErrClosed):
		return false, problem
	case problem != nil:
		// Routing may have been restarted, the thread may be busy: all that heals.
		s.job.Log.Warn("a thread's report was not to be had; asking again", "thread", t.tid, "error", problem)
	case report.Never:
		answered, problem = true, errNever
	case t.stamp > 0 && report.Stamp > t.stamp:
		answered = true
		t.advanced++
		s.seen(t, report, now)
	default:
		answered = true
		if report.Stamp != t.stamp { // the first, or a smaller one: the reports were lost with a memory node
			s.seen(t, report, now)
		}
	}
	if now.Sub(t.changed) > silence*s.job.Period {
		err = fmt.Errorf("%w: thread %d of %s (%s) has reported no keys for %s: is it running, and is the number of threads right?",
			ErrSilent, t.tid, s.job.Self.Private, s.job.Tier, now.Sub(t.changed).Round(time.Second))
		return false, errors.Join(err, problem)
	}
	return answered, nil
}

var errNever = errors.New("it has never reported: there is no such thread, or the node has just started")

// seen notes a report that is another than the one before.
func (s *stamps) seen(t *thread, report client.Report, now time.Time) {
	t.stamp, t.size, t.changed = report.Stamp, len(report.Sizes), now
	t.next = now.Add(s.job.Period / 4)
	// Each time the whole list is transferred, so it is better to ask when there is
	// another. The stamp is the node's clock in ms, with the thread's number behind it;
	// that clock is this pod's own. Where it is not, this only lasts longer.
	scale := uint64(10)
	for n := t.tid; n >= 10; n /= 10 {
		scale *= 10
	}
	next := time.UnixMilli(int64(report.Stamp / scale)).Add(s.job.Period + s.job.Period/20)
	if wait := next.Sub(now); wait > 0 && wait <= 2*s.job.Period {
		t.next = next
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// complete fills what a job leaves open.
func (j *Job) complete() {
	if j.Local == "" {
		j.Local = "127.0.0.1"
	}
	if j.Period == 0 {
		j.Period = period
	}
	if j.Window == 0 {
		j.Window = 8
	}
	if j.Batch == 0 {
		j.Batch = 100
	}
	if j.Log == nil {
		j.Log = slog.New(slog.DiscardHandler)
	}
}

// list fetches a thread's list, of which wait has seen that it is complete.
func (s *stamps) list(ctx context.Context, t *thread) ([]byte, error) {
	for {
		report, err := s.from.Report(ctx, s.job.Self, s.job.Tier, t.tid)
		if err == nil && !report.Never && report.Stamp >= t.stamp {
			return report.Sizes, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if errors.Is(err, client.ErrClosed) {
			return nil, err
		}
		if time.Since(t.changed) > 2*silence*s.job.Period {
			return nil, fmt.Errorf("%w: the list of keys of thread %d of %s was there, and is no more: %w", ErrSilent, t.tid, s.job.Self.Private, errors.Join(err))
		}
		if err := sleep(ctx, s.job.Period/6); err != nil {
			return nil, err
		}
	}
}
