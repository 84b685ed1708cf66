package nodeserver

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"
)

// apart is the least time between two lines about failed handshakes.
const apart = 10 * time.Second

// sparsely passes on a line now and then and drops the others.
type sparsely struct {
	slog.Handler
	next *atomic.Int64 // when a line may pass, in nanoseconds
}

func sparse(h slog.Handler) slog.Handler { return sparsely{h, &atomic.Int64{}} }

func (s sparsely) Handle(ctx context.Context, r slog.Record) error {
	now, next := time.Now().UnixNano(), s.next.Load()
	if now < next || !s.next.CompareAndSwap(next, now+int64(apart)) {
		return nil
	}
	return s.Handler.Handle(ctx, r)
}
