package pod

import (
	"context"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/stategraft/stategraft/agent/files"
	"github.com/stategraft/stategraft/agent/restore"
	"github.com/stategraft/stategraft/api/node"
)

const (
	tidyPoll  = 15 * time.Second
	cqlLimit  = 5 * time.Second // for one connection: a busy database answers late
	tightPart = 20              // a volume is tight where less than this part of it is free
)

// startTidy removes the data from before a restore once the database has served
// CQL for long enough, without a break, since this container started; what a restore
// that was given up has left is no longer half replaced then. It gives a function that
// tells what is still there.
func (c Config) startTidy(ctx context.Context) func() []node.Previous {
	if c.TidyAfter <= 0 || c.Pod.DataMount == "" {
		return func() []node.Previous { return nil }
	}
	if c.TidyPoll == 0 {
		c.TidyPoll = tidyPoll
	}
	var mutex sync.Mutex
	var there []node.Previous
	go c.tidy(ctx, func(now []node.Previous) {
		mutex.Lock()
		defer mutex.Unlock()
		there = now
	})
	return func() []node.Previous {
		mutex.Lock()
		defer mutex.Unlock()
		return slices.Clone(there)
	}
}

func (c Config) tidy(ctx context.Context, tell func([]node.Previous)) {
	t := tidier{Config: c, now: time.Now}
	for {
		t.look(ctx, tell)
		select {
		case <-ctx.Done():
			return
		case <-time.After(c.TidyPoll):
		}
	}
}

// tidier remembers from one look to the next.
type tidier struct {
	Config
	now    func() time.Time
	since  time.Time // of when the database answers; zero: it did not at the last look
	failed string    // what was told
}

// look looks once, and removes what is due.
func (t *tidier) look(ctx context.Context, tell func([]node.Previous)) {
	found, err := restore.Previous(t.Pod.DataMount)
	tell(found)
	if (len(found) > 0 || restore.Half(t.Pod.DataMount)) && err == nil {
		var lasts time.Duration
		switch answers := t.answers(ctx); {
		case !answers:
			t.since = time.Time{}
		case t.since.IsZero():
			t.since = t.now()
		default:
			lasts = t.now().Sub(t.since)
		}
		err = t.tidyOnce(lasts)
	}
	if err != nil && err.Error() != t.failed {
		t.failed = err.Error()
		t.Log.Warn("the data from before a restore stay on the volume", "error", t.failed)
	}
}

// tidyOnce removes what is due, and what was kept only because there was room when
// there is none left: rather no way back than a full volume. lasts is how long the database
// has answered.
func (c Config) tidyOnce(lasts time.Duration) error {
	if lasts >= c.TidyAfter {
		return restore.Tidy(c.Pod.DataMount, c.Log)
	}
	size, free, err := files.Room(c.Pod.DataMount)
	if err != nil || free >= size/tightPart {
		return err
	}
	return restore.TidyForRoom(c.Pod.DataMount, c.Log)
}

// answers tells whether the database takes connections: on all addresses, or on
// the pod's only.
func (c Config) answers(ctx context.Context) bool {
	port := c.Pod.CQLPort
	if port == 0 {
		port = 9042
	}
	hosts := []string{"127.0.0.1", os.Getenv("POD_IP")}
	if name, err := os.Hostname(); err == nil {
		hosts = append(hosts, name) // by /etc/hosts the pod's address
	}
	for _, host := range hosts {
		if host == "" {
			continue
		}
		dialer := net.Dialer{Timeout: cqlLimit}
		if connection, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port))); err == nil {
			connection.Close()
			return true
		}
	}
	return false
}
