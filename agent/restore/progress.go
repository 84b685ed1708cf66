package restore

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/stategraft/stategraft/api/node"
)

func (c Config) tell(p node.Progress) {
	if c.Tell != nil {
		p.ID = c.id()
		c.Tell(p)
	}
}

// First is what there is to tell before anything is looked at: that nothing is
// replaced yet. Who serves the progress tells it from the start on.
func (c Config) First() node.Progress {
	return node.Progress{ID: c.id(), Phase: node.LookingUp, Started: time.Now().UTC().Truncate(time.Second)}
}

// watch tells how far the download is until the context ends, and what is waited for
// where it does not go on.
func (j *job) watch(ctx context.Context, out *output) {
	said := time.Now()
	pause := min(time.Second, j.Progress)
	still := j.stillness("no byte", out)
	before := int64(-1)
	var last time.Time // that the volume was looked at
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		looked := time.Now()
		bytes := downloaded(j.Temp)
		if ctx.Err() != nil {
			return // it is being moved away
		}
		if bytes != before {
			before = bytes
			still.over(last)
		}
		last = looked
		j.waiting(node.Downloading, bytes, still.message())
		if time.Since(said) >= j.Progress {
			said = time.Now()
			j.Log.Info("restore is running", "bytes_downloaded", bytes, "bytes", j.bytes)
		}
		// Very many files are not to keep the volume busy.
		pause = max(pause, 10*time.Since(looked))
	}
}

// await tells what is waited for while the storage is asked.
func (j *job) await(ctx context.Context, out *output) {
	still := j.stillness("no answer from the storage", out)
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(min(time.Second, j.Progress)):
		}
		if message := still.message(); message != "" && ctx.Err() == nil {
			j.waiting(node.LookingUp, 0, message)
		}
	}
}

// meanwhile runs a function beside what follows, and gives the one that ends it and
// waits for that. It may be called more than once.
func meanwhile(ctx context.Context, run func(context.Context)) func() {
	ctx, cease := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() { run(ctx); close(ended) }()
	return func() { cease(); <-ended }
}

// patience is how long nothing may move before it is told of.
var patience = 10 * time.Second

// longestSaying is how much of what Medusa says is told, in bytes: it is a line of a
// status.
const longestSaying = 300

// stillness is the time in which nothing moves.
type stillness struct {
	what   string
	every  time.Duration // between two lines of the log
	out    *output
	log    *slog.Logger
	since  time.Time
	logged time.Time // zero while nothing is said
}

func (j *job) stillness(what string, out *output) *stillness {
	return &stillness{what: what, every: j.Progress, out: out, log: j.Log, since: time.Now()}
}

// over is to be called when something moved since the last look. What Medusa complained
// of before that is past.
func (s *stillness) over(last time.Time) {
	if !s.logged.IsZero() {
		s.log.Info("it goes on", "after", time.Since(s.since).Truncate(time.Second).String())
	}
	s.since, s.logged = time.Now(), time.Time{}
	s.out.forget(last)
}

// message says what is waited for, and logs it now and then; it is empty while it is
// too early to say.
func (s *stillness) message() string {
	passed := time.Since(s.since)
	if passed < patience {
		return ""
	}
	says := " nothing yet"
	if complaint := s.out.complaint(); complaint != "" {
		says = ": " + clip(complaint)
	}
	text := fmt.Sprintf("%s for %v; Medusa says%s", s.what, passed.Truncate(min(time.Second, patience)), says)
	if s.logged.IsZero() || time.Since(s.logged) >= s.every {
		s.logged = time.Now()
		s.log.Warn("restore does not go on: " + text)
	}
	return text
}

func clip(text string) string {
	if len(text) > longestSaying {
		text = strings.ToValidUTF8(text[:longestSaying], "") + " …"
	}
	return text
}

func downloaded(temp string) int64 {
	var bytes int64
	found, _ := leftovers(temp)
	for _, dir := range found {
		_ = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return nil // it is moved away while it is looked at
			}
			if info, err := entry.Info(); err == nil {
				bytes += info.Size()
			}
			return nil
		})
	}
	return bytes
}
